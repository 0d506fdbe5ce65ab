package checkback;

import java.io.Serializable;
import java.security.DigestException;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The headers of a record whose first ones stand in the protocol's order, and what Signature says.
 *
 * <p>One object reads record after record, for one thread: the memory that a record needs is there
 * already. Names and values are read where Spark has them, and copied once: into what is signed.
 * RecordVerifier.java says how this is compiled: what it uses is public, since Janino lets no class
 * use anything else of one that was compiled before.
 */
public final class SignedRecord {

  static final int HEADERS_IN_ORDER = 5;
  static final int TIMESTAMP_BYTES_MAX = 13;
  static final UTF8String SIGNATURE = UTF8String.fromString("Signature");
  static final UTF8String BORN_HOST = UTF8String.fromString("__BORNHOST");
  static final byte SEPARATOR = (byte) 0xff;
  static final byte SPACE = (byte) 0x20;
  public static final int NONE = -1;

  /** As long as a secret's inner block and the line of sizes that follows. */
  static final int OPENING_BYTES_MAX = 358;

  private final Thread reader;
  private final HashMap hashes = new HashMap();
  private UnsafeProjection toUnsafe;

  /** The bytes that hold all headers, where in them each name and value begins, and its size. */
  private byte[] from;
  private int[] nameAt = new int[16];
  private int[] nameBytes = new int[16];
  private int[] valueAt = new int[16];
  private int[] valueBytes = new int[16];
  private int headersBytes;
  private int last;

  /** Where Signature's value begins and ends, and where the two spaces in it are. */
  private int saidAt;
  private int saidEnd;
  private int timeEnd;
  private int keyEnd;

  /** What is signed, but for the value: the opening ends where the head begins. */
  private byte[] content = new byte[4096];
  private int headEnd;
  private int contentEnd;
  private int keyBytes;

  /** @param reader the thread that reads with it */
  public SignedRecord(Thread reader) {
    this.reader = reader;
  }

  public boolean isOf(Thread thread) {
    return this.reader == thread;
  }

  /** Reads the headers of the next record. */
  public void read(ArrayData headers) {
    UnsafeArrayData stored = this.stored(headers);
    int count = stored.numElements();
    this.from = (byte[]) stored.getBaseObject();
    this.headersBytes = stored.getSizeInBytes();
    this.last = count - 1;
    if (count > this.nameAt.length) {
      this.nameAt = new int[2 * count];
      this.nameBytes = new int[2 * count];
      this.valueAt = new int[2 * count];
      this.valueBytes = new int[2 * count];
    }
    long begin = stored.getBaseOffset();
    long element = begin + UnsafeArrayData.calculateHeaderPortionInBytes(count);
    for (int at = 0; at < count; at++) {
      this.locate(at, begin + (Platform.getLong(this.from, element) >>> 32));
      element += 8;
    }
    this.splitSignature();
  }

  /** Returns the headers as Spark has those of Kafka's records: all in one array of bytes. */
  private UnsafeArrayData stored(ArrayData headers) {
    if (headers instanceof UnsafeArrayData) {
      UnsafeArrayData given = (UnsafeArrayData) headers;
      return given.getBaseObject() instanceof byte[] ? given : given.copy();
    }
    if (this.toUnsafe == null) {
      StructType header = new StructType().add("key", "string").add("value", "binary");
      this.toUnsafe = UnsafeProjection.create(new DataType[] {new ArrayType(header, true)});
    }
    return this.toUnsafe.apply(new GenericInternalRow(new Object[] {headers})).getArray(0);
  }

  /**
   * Notes where the name and the value of a header stand. An UnsafeRow has a bit for each null
   * field, then a word for each field: from the top where its bytes begin, and how many there are.
   *
   * @param row where the header begins
   */
  private void locate(int at, long row) {
    int begin = (int) (row - Platform.BYTE_ARRAY_OFFSET);
    boolean hasNoValue = (Platform.getLong(this.from, row) & 2) != 0;
    long name = Platform.getLong(this.from, row + 8);
    long value = Platform.getLong(this.from, row + 16);
    this.nameAt[at] = begin + (int) (name >>> 32);
    this.nameBytes[at] = (int) name;
    this.valueAt[at] = begin + (int) (value >>> 32);
    this.valueBytes[at] = hasNoValue ? NONE : (int) value;
  }

  /**
   * Whether the first headers are those of the protocol's order.
   *
   * @param namesInOrder their names, a separator after each
   */
  public boolean isInOrder(byte[] namesInOrder) {
    int end = 0;
    for (int at = 0; at < HEADERS_IN_ORDER && at <= this.last; at++) {
      int begin = end;
      int first = this.nameAt[at];
      int size = this.nameBytes[at];
      end += size + 1;
      if (end > namesInOrder.length
          || namesInOrder[end - 1] != SEPARATOR
          || !Arrays.equals(this.from, first, first + size, namesInOrder, begin, end - 1)) {
        return false;
      }
    }
    return end == namesInOrder.length;
  }

  private void splitSignature() {
    boolean isSaid = this.isSigned() && this.valueBytes[this.last] > 0;
    this.saidAt = isSaid ? this.valueAt[this.last] : 0;
    this.saidEnd = isSaid ? this.saidAt + this.valueBytes[this.last] : 0;
    this.timeEnd = this.spaceFrom(this.saidAt);
    this.keyEnd = this.timeEnd == NONE ? NONE : this.spaceFrom(this.timeEnd + 1);
  }

  private int spaceFrom(int first) {
    for (int at = first; at < this.saidEnd; at++) {
      if (this.from[at] == SPACE) {
        return at;
      }
    }
    return NONE;
  }

  public boolean hasHeaders() {
    return this.last >= 0;
  }

  public UTF8String name(int at) {
    return this.text(this.nameAt[at], this.nameBytes[at]);
  }

  /** Returns a header's value, null or its bytes. */
  public UTF8String value(int at) {
    int bytes = this.valueBytes[at];
    return bytes == NONE ? null : this.text(this.valueAt[at], bytes);
  }

  private UTF8String text(int at, int bytes) {
    return UTF8String.fromAddress(this.from, Platform.BYTE_ARRAY_OFFSET + at, bytes);
  }

  /** Whether the last header is the one that a signed record ends with. */
  public boolean isSigned() {
    return this.last >= HEADERS_IN_ORDER && SIGNATURE.equals(this.name(this.last));
  }

  /** Whether Signature has its three parts, a space between two of them and none of them empty. */
  public boolean isReadable() {
    return this.timeEnd > this.saidAt
        && this.keyEnd > this.timeEnd + 1
        && this.keyEnd < this.saidEnd - 1;
  }

  /** Returns when it was signed, NONE for a time that is not written as the protocol has it. */
  public long bornMs() {
    int size = this.timeEnd - this.saidAt;
    boolean hasZeros = this.from[this.saidAt] == '0' && size > 1;
    if (hasZeros || size > TIMESTAMP_BYTES_MAX) {
      return NONE;
    }
    long read = 0;
    for (int at = this.saidAt; at < this.timeEnd; at++) {
      int digit = this.from[at] - '0';
      if (digit < 0 || digit > 9) {
        return NONE;
      }
      read = 10 * read + digit;
    }
    return read;
  }

  public UTF8String accessKey() {
    int first = this.timeEnd + 1;
    return this.text(first, this.keyEnd - first);
  }

  public String statedAddress() {
    UTF8String stated = this.value(this.last - 1);
    boolean isStated = BORN_HOST.equals(this.name(this.last - 1)) && stated != null;
    return isStated ? stated.toString() : "";
  }

  public boolean hasNameWith(UTF8String text) {
    for (int at = HEADERS_IN_ORDER; at < this.last; at++) {
      if (this.name(at).contains(text)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Puts together what is signed behind its opening and before the value: the head, and the key. The
   * head is all names, then all values; Signature's up to the signature, which can't sign itself.
   *
   * @param namesInOrder the first names, a separator after each
   * @param key of the record
   */
  public void gather(byte[] namesInOrder, byte[] key) {
    this.keyBytes = key == null ? NONE : key.length;
    int size = namesInOrder.length + this.headersBytes + Math.max(0, this.keyBytes);
    if (this.content.length < OPENING_BYTES_MAX + size) {
      this.content = new byte[2 * (OPENING_BYTES_MAX + size)];
    }
    int end = OPENING_BYTES_MAX;
    System.arraycopy(namesInOrder, 0, this.content, end, namesInOrder.length);
    end = this.addNames(end + namesInOrder.length);
    end = this.addValues(end);
    end = this.add(end, this.saidAt, this.keyEnd + 1 - this.saidAt);
    this.headEnd = end;
    if (key != null) {
      System.arraycopy(key, 0, this.content, end, key.length);
      end += key.length;
    }
    this.contentEnd = end;
  }

  private int addNames(int begin) {
    int end = begin;
    for (int at = HEADERS_IN_ORDER; at <= this.last; at++) {
      end = this.add(end, this.nameAt[at], this.nameBytes[at]);
    }
    return end;
  }

  private int addValues(int begin) {
    int end = begin;
    for (int at = 0; at < this.last; at++) {
      end = this.add(end, this.valueAt[at], Math.max(0, this.valueBytes[at]));
    }
    return end;
  }

  /** Adds bytes of the headers and a separator, and returns where they end. */
  private int add(int end, int first, int size) {
    System.arraycopy(this.from, first, this.content, end, size);
    this.content[end + size] = SEPARATOR;
    return end + size + 1;
  }

  /**
   * Tells whether the signature is that of a secret, in a time that does not depend on where it
   * differs.
   *
   * @param topic number of the topic that the record was written to
   * @param partition NONE for a half
   * @param value of the record
   */
  public boolean isSignedWith(Secret secret, int topic, int partition, byte[] value) {
    Hash hash = this.hash(secret.hash);
    int first = this.keyEnd + 1;
    if (this.saidEnd - first != hash.said.length) {
      return false;
    }
    System.arraycopy(this.from, first, hash.said, 0, hash.said.length);
    int begin = this.open(secret.inner, secret.beginnings[topic], partition);
    hash.digest.update(this.content, begin, this.contentEnd - begin);
    if (value != null) {
      hash.digest.update(value, 0, value.length);
    }
    return MessageDigest.isEqual(hash.signature(secret.outer), hash.said);
  }

  private Hash hash(String name) {
    Hash found = (Hash) this.hashes.get(name);
    if (found == null) {
      found = new Hash(name);
      this.hashes.put(name, found);
    }
    return found;
  }

  /** Puts the opening before the head, from its end on, and returns where it begins. */
  private int open(byte[] inner, byte[] beginning, int partition) {
    int at = OPENING_BYTES_MAX - 1;
    this.content[at] = (byte) '\n';
    at = this.numberBefore(at, this.keyBytes) - 1;
    this.content[at] = SPACE;
    at = this.numberBefore(at, this.headEnd - OPENING_BYTES_MAX) - 1;
    this.content[at] = SPACE;
    at = this.numberBefore(at, partition) - beginning.length;
    System.arraycopy(beginning, 0, this.content, at, beginning.length);
    at -= inner.length;
    System.arraycopy(inner, 0, this.content, at, inner.length);
    return at;
  }

  /** Writes a number in decimal, a dash for none, and returns where it begins. */
  private int numberBefore(int end, int number) {
    int at = end - 1;
    if (number < 0) {
      this.content[at] = (byte) '-';
      return at;
    }
    this.content[at] = (byte) ('0' + number % 10);
    for (int rest = number / 10; rest > 0; rest /= 10) {
      at -= 1;
      this.content[at] = (byte) ('0' + rest % 10);
    }
    return at;
  }

  /** A hash function, with the memory that it needs. */
  static final class Hash {

    final MessageDigest digest;
    final byte[] said;
    private final byte[] hashed;
    private final byte[] signature;

    Hash(String name) {
      try {
        this.digest = MessageDigest.getInstance(name);
      } catch (GeneralSecurityException error) {
        throw new IllegalStateException(name, error);
      }
      this.hashed = new byte[this.digest.getDigestLength()];
      this.signature = Base64.getEncoder().encode(this.hashed);
      this.said = new byte[this.signature.length];
    }

    /** Ends the HMAC of what was added, and returns it in Base64. */
    byte[] signature(byte[] outer) {
      try {
        this.digest.digest(this.hashed, 0, this.hashed.length);
        this.digest.update(outer, 0, outer.length);
        this.digest.update(this.hashed, 0, this.hashed.length);
        this.digest.digest(this.hashed, 0, this.hashed.length);
      } catch (DigestException error) {
        throw new IllegalStateException(this.digest.getAlgorithm(), error);
      }
      Base64.getEncoder().encode(this.hashed, this.signature);
      return this.signature;
    }
  }

  /** A secret: the two blocks that its HMAC begins with (RFC 2104). */
  public static final class Secret implements Serializable {

    final byte[][] beginnings;
    final String hash;
    final byte[] inner;
    final byte[] outer;

    /** @param beginnings of what is signed: algorithm and topic, for each topic */
    public Secret(byte[][] beginnings, String hash, byte[] inner, byte[] outer) {
      this.beginnings = beginnings;
      this.hash = hash;
      this.inner = inner;
      this.outer = outer;
    }
  }
}
