package checkback;

import static checkback.Protocol.*;

import java.io.Serializable;
import java.security.DigestException;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HashMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The content of the header Signature, in a record with headers in the protocol's order.
 *
 * <p>One object reads record after record, for one thread: the memory that a record needs is there
 * already. Names and values are copied once: into what is signed. Written for Janino, as
 * RecordHeaders.java.
 */
final class SignedRecord {

  static final byte[] SIGNATURE = RecordDecoder.bytes(Protocol.SIGNATURE);
  static final byte[] BORN_HOST = RecordDecoder.bytes(Protocol.BORN_HOST);
  static final byte SPACE = (byte) 0x20;
  static final int NONE = RecordHeaders.NONE;

  private final HashMap hashes = new HashMap();
  private RecordHeaders headers;

  /** The bytes that hold all headers. */
  private byte[] from;
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

  /** Takes the next record's headers. */
  void read(RecordHeaders headers) {
    this.headers = headers;
    this.from = headers.bytes();
    this.last = headers.count() - 1;
    this.splitSignature();
  }

  private void splitSignature() {
    boolean isSaid = this.isSigned() && this.headers.valueBytes(this.last) > 0;
    this.saidAt = isSaid ? this.headers.valueAt(this.last) : 0;
    this.saidEnd = isSaid ? this.saidAt + this.headers.valueBytes(this.last) : 0;
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

  /** Whether the last header is the one that a signed record ends with. */
  boolean isSigned() {
    return this.last >= HEADERS_IN_ORDER && this.headers.isNamed(this.last, SIGNATURE);
  }

  /** Whether Signature has its three parts, a space between two of them and none of them empty. */
  boolean isReadable() {
    return this.timeEnd > this.saidAt
        && this.keyEnd > this.timeEnd + 1
        && this.keyEnd < this.saidEnd - 1;
  }

  /** Returns when it was signed, NONE for a time that is not written as the protocol has it. */
  long bornMs() {
    int size = this.timeEnd - this.saidAt;
    boolean hasZeros = this.from[this.saidAt] == '0' && size > 1;
    if (hasZeros || size > TIMESTAMP_BYTES_MAX) {
      return NONE;
    }
    return RecordHeaders.number(this.from, this.saidAt, size);
  }

  UTF8String accessKey() {
    int first = this.timeEnd + 1;
    return this.headers.text(first, this.keyEnd - first);
  }

  String statedAddress() {
    UTF8String stated = this.headers.value(this.last - 1);
    boolean isStated = this.headers.isNamed(this.last - 1, BORN_HOST) && stated != null;
    return isStated ? stated.toString() : "";
  }

  boolean hasNameWith(UTF8String text) {
    for (int at = HEADERS_IN_ORDER; at < this.last; at++) {
      if (this.headers.name(at).contains(text)) {
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
  void gather(byte[] namesInOrder, byte[] key) {
    this.keyBytes = key == null ? NONE : key.length;
    int size = namesInOrder.length + this.headers.sizeInBytes() + Math.max(0, this.keyBytes);
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
      end = this.add(end, this.headers.nameAt(at), this.headers.nameBytes(at));
    }
    return end;
  }

  private int addValues(int begin) {
    int end = begin;
    for (int at = 0; at < this.last; at++) {
      end = this.add(end, this.headers.valueAt(at), Math.max(0, this.headers.valueBytes(at)));
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
  boolean isSignedWith(Secret secret, int topic, int partition, byte[] value) {
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
  static final class Secret implements Serializable {

    final byte[][] beginnings;
    final String hash;
    final byte[] inner;
    final byte[] outer;

    /** @param beginnings of what is signed: algorithm and topic, for each topic */
    Secret(byte[][] beginnings, String hash, byte[] inner, byte[] outer) {
      this.beginnings = beginnings;
      this.hash = hash;
      this.inner = inner;
      this.outer = outer;
    }
  }
}
