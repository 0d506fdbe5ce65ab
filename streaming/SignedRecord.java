package checkback;

import java.io.Serializable;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The headers of a record whose first ones stand in the protocol's order, and what Signature says.
 *
 * <p>Names and values are read where they stand in memory, and copied once: into what is signed.
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

  private final ArrayData headers;
  private final int last;
  private final byte[] said;
  private final int timeEnd;
  private final int keyEnd;

  public SignedRecord(ArrayData headers) {
    this.headers = headers;
    this.last = headers.numElements() - 1;
    UTF8String value = this.isSigned() ? value(headers, this.last) : null;
    this.said = value == null ? new byte[0] : value.getBytes();
    this.timeEnd = this.spaceFrom(0);
    this.keyEnd = this.timeEnd == NONE ? NONE : this.spaceFrom(this.timeEnd + 1);
  }

  public static UTF8String name(ArrayData headers, int at) {
    return headers.getStruct(at, 2).getUTF8String(0);
  }

  /** Returns a header's value, null or its bytes; they are copied only where Spark did not. */
  public static UTF8String value(ArrayData headers, int at) {
    InternalRow header = headers.getStruct(at, 2);
    if (header.isNullAt(1)) {
      return null;
    }
    return header instanceof UnsafeRow
        ? header.getUTF8String(1)
        : UTF8String.fromBytes(header.getBinary(1));
  }

  private static int bytesOf(UTF8String part) {
    return part == null ? 0 : part.numBytes();
  }

  private int spaceFrom(int first) {
    for (int at = first; at < this.said.length; at++) {
      if (this.said[at] == SPACE) {
        return at;
      }
    }
    return NONE;
  }

  /** Whether the last header is the one that a signed record ends with. */
  public boolean isSigned() {
    return this.last >= HEADERS_IN_ORDER && SIGNATURE.equals(name(this.headers, this.last));
  }

  /** Whether Signature has its three parts, a space between two of them and none of them empty. */
  public boolean isReadable() {
    return this.timeEnd > 0
        && this.keyEnd > this.timeEnd + 1
        && this.keyEnd < this.said.length - 1;
  }

  /** Returns when it was signed, NONE for a time that is not written as the protocol has it. */
  public long bornMs() {
    boolean hasZeros = this.said[0] == '0' && this.timeEnd > 1;
    if (hasZeros || this.timeEnd > TIMESTAMP_BYTES_MAX) {
      return NONE;
    }
    long read = 0;
    for (int at = 0; at < this.timeEnd; at++) {
      int digit = this.said[at] - '0';
      if (digit < 0 || digit > 9) {
        return NONE;
      }
      read = 10 * read + digit;
    }
    return read;
  }

  public UTF8String accessKey() {
    int first = this.timeEnd + 1;
    return UTF8String.fromBytes(this.said, first, this.keyEnd - first);
  }

  public byte[] signature() {
    return Arrays.copyOfRange(this.said, this.keyEnd + 1, this.said.length);
  }

  public UTF8String value(int at) {
    return value(this.headers, at);
  }

  public String statedAddress() {
    UTF8String stated = this.value(this.last - 1);
    boolean isStated = BORN_HOST.equals(name(this.headers, this.last - 1)) && stated != null;
    return isStated ? stated.toString() : "";
  }

  public boolean hasNameWith(UTF8String text) {
    for (int at = HEADERS_IN_ORDER; at < this.last; at++) {
      if (name(this.headers, at).contains(text)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Returns all names, then all values; Signature's up to the signature, which can't sign itself.
   *
   * @param namesInOrder the first names, a separator after each
   */
  public Bytes head(byte[] namesInOrder) {
    Bytes head = new Bytes(this.headBytes(namesInOrder));
    head.add(namesInOrder, namesInOrder.length);
    for (int at = HEADERS_IN_ORDER; at <= this.last; at++) {
      head.add(name(this.headers, at));
      head.add(SEPARATOR);
    }
    for (int at = 0; at < this.last; at++) {
      head.add(value(this.headers, at));
      head.add(SEPARATOR);
    }
    head.add(this.said, this.keyEnd + 1);
    head.add(SEPARATOR);
    return head;
  }

  private int headBytes(byte[] namesInOrder) {
    int bytes = namesInOrder.length + this.keyEnd + 2;
    for (int at = HEADERS_IN_ORDER; at <= this.last; at++) {
      bytes += bytesOf(name(this.headers, at)) + 1;
    }
    for (int at = 0; at < this.last; at++) {
      bytes += bytesOf(value(this.headers, at)) + 1;
    }
    return bytes;
  }

  /** A secret, with the hashes of its blocks begun (RFC 2104): they are copied for each record. */
  public static final class Secret implements Serializable {

    /** As long as three numbers and what parts them. */
    static final int SIZES_BYTES_MAX = 33;

    private final byte[][] beginnings;
    private final String hash;
    private final byte[] inner;
    private final byte[] outer;
    private transient volatile MessageDigest[] begun;

    public Secret(byte[][] beginnings, String hash, byte[] inner, byte[] outer) {
      this.beginnings = beginnings;
      this.hash = hash;
      this.inner = inner;
      this.outer = outer;
    }

    /** Returns the line that the content begins with. */
    public Bytes sizes(int topic, int partition, int headBytes, byte[] key) {
      byte[] beginning = this.beginnings[topic];
      Bytes sizes = new Bytes(beginning.length + SIZES_BYTES_MAX);
      sizes.add(beginning, beginning.length);
      sizes.addNumber(partition);
      sizes.add(SPACE);
      sizes.addNumber(headBytes);
      sizes.add(SPACE);
      sizes.addNumber(key == null ? NONE : key.length);
      sizes.add((byte) '\n');
      return sizes;
    }

    /** Returns the signature in Base64. */
    public byte[] sign(Bytes sizes, Bytes head, byte[] key, byte[] value) {
      try {
        MessageDigest[] both = this.begun;
        if (both == null) {
          both = new MessageDigest[] {begun(this.inner), begun(this.outer)};
          this.begun = both;
        }
        MessageDigest digest = (MessageDigest) both[0].clone();
        digest.update(sizes.room, 0, sizes.end);
        digest.update(head.room, 0, head.end);
        if (key != null) {
          digest.update(key);
        }
        if (value != null) {
          digest.update(value);
        }
        MessageDigest last = (MessageDigest) both[1].clone();
        return Base64.getEncoder().encode(last.digest(digest.digest()));
      } catch (GeneralSecurityException error) {
        throw new IllegalStateException(this.hash, error);
      } catch (CloneNotSupportedException error) {
        throw new IllegalStateException(this.hash, error);
      }
    }

    private MessageDigest begun(byte[] block) throws GeneralSecurityException {
      MessageDigest digest = MessageDigest.getInstance(this.hash);
      digest.update(block);
      return digest;
    }
  }

  /** Bytes that are put together, in as much room as they take at most. */
  public static final class Bytes {

    final byte[] room;
    public int end = 0;

    Bytes(int bytesMax) {
      this.room = new byte[bytesMax];
    }

    void add(byte one) {
      this.room[this.end] = one;
      this.end += 1;
    }

    void add(byte[] part, int size) {
      System.arraycopy(part, 0, this.room, this.end, size);
      this.end += size;
    }

    /** Adds a text, of none nothing; Spark's own way to copy one costs more than so few bytes. */
    void add(UTF8String part) {
      int size = bytesOf(part);
      if (size > 0 && part.getBaseObject() instanceof byte[]) {
        int first = (int) (part.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        System.arraycopy(part.getBaseObject(), first, this.room, this.end, size);
      } else if (size > 0) {
        part.writeToMemory(this.room, Platform.BYTE_ARRAY_OFFSET + this.end);
      }
      this.end += size;
    }

    /** Adds a number in decimal, a dash for none. */
    void addNumber(int number) {
      if (number < 0) {
        this.add((byte) '-');
        return;
      }
      int digits = 1;
      for (int rest = number / 10; rest > 0; rest /= 10) {
        digits += 1;
      }
      int rest = number;
      for (int at = this.end + digits - 1; at >= this.end; at--) {
        this.room[at] = (byte) ('0' + rest % 10);
        rest /= 10;
      }
      this.end += digits;
    }
  }
}
