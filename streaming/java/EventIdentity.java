package checkback;

import static checkback.Protocol.*;

import java.nio.charset.StandardCharsets;
import java.security.DigestException;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.zip.CRC32;

/**
 * The identity of a half or an op, as state/formats/identity.py says: two words from group and id.
 *
 * <p>For one thread; it has the identity of one record at a time. Written for Janino, as
 * RecordHeaders.java.
 */
final class EventIdentity {

  static final byte[] HEX_DIGITS = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

  private final MessageDigest sha256;
  private final CRC32 crc = new CRC32();
  private final byte[] digest;
  private final byte[] hex;
  private final byte[] length = new byte[11];

  private long word;
  private long rest;

  EventIdentity() {
    try {
      this.sha256 = MessageDigest.getInstance("SHA-256");
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
    this.digest = new byte[this.sha256.getDigestLength()];
    this.hex = new byte[2 * this.digest.length];
  }

  /** Returns the first word: the group's bits, then those of the digest. */
  long word() {
    return this.word;
  }

  /** Returns the second word, all of it of the digest. */
  long rest() {
    return this.rest;
  }

  /** Takes the words that a record without a group and an id has, or that it names itself. */
  void be(long word) {
    this.word = word;
    this.rest = 0;
  }

  /**
   * Takes the identity of a group's transaction.
   *
   * @param group number of the header with the group; NONE where there is none
   * @param id the same of the transaction id
   */
  void read(RecordHeaders headers, int group, int id) {
    this.be(0);
    if (headers.valueBytes(group) == RecordHeaders.NONE) {
      return;
    }
    byte[] from = headers.bytes();
    this.word = this.sum(from, headers.valueAt(group), headers.valueBytes(group));
    this.word <<= TRANSACTION_BITS;
    if (headers.valueBytes(id) == RecordHeaders.NONE) {
      return;
    }
    this.hash(headers, group, id);
    this.word |= this.slice(0) << (TRANSACTION_BITS - 32);
    this.word |= this.slice(2) & ((1L << (TRANSACTION_BITS - 32)) - 1);
    this.rest = this.slice(1);
  }

  private void hash(RecordHeaders headers, int group, int id) {
    byte[] from = headers.bytes();
    int begin = this.lengthBegins(headers.valueBytes(group));
    this.sha256.update(this.length, begin, this.length.length - begin);
    this.sha256.update(from, headers.valueAt(group), headers.valueBytes(group));
    this.sha256.update(from, headers.valueAt(id), headers.valueBytes(id));
    try {
      this.sha256.digest(this.digest, 0, this.digest.length);
    } catch (DigestException error) {
      throw new IllegalStateException(error);
    }
    for (int at = 0; at < this.digest.length; at++) {
      this.hex[2 * at] = HEX_DIGITS[(this.digest[at] >> 4) & 15];
      this.hex[2 * at + 1] = HEX_DIGITS[this.digest[at] & 15];
    }
  }

  /** Writes a length in decimal and a colon, and returns where it begins. */
  private int lengthBegins(int bytes) {
    int at = this.length.length - 1;
    this.length[at] = (byte) ':';
    int left = bytes;
    do {
      at -= 1;
      this.length[at] = (byte) ('0' + left % 10);
      left /= 10;
    } while (left > 0);
    return at;
  }

  private long slice(int at) {
    return this.sum(this.hex, SLICE * at, SLICE);
  }

  private long sum(byte[] bytes, int first, int size) {
    this.crc.reset();
    this.crc.update(bytes, first, size);
    return this.crc.getValue();
  }
}
