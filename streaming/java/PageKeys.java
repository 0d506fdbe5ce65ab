package checkback;

import java.io.Serializable;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * Finds the number that gives a page's key its wanted hash; page_key.py reads keys back.
 *
 * <p>Written for Janino, as RecordHeaders.java.
 */
public final class PageKeys implements Serializable {

  /** Of Spark's hash, both for shuffles and for the function `hash`. */
  static final int SEED = 42;
  static final int INT_BYTES = 4;
  static final int WANTED_BITS = 0xffff;

  /** What undoes a multiplication of the hash's end, of its step, and of a block. */
  static final int END_FIRST = 0xa5cb9243;
  static final int END_LAST = 0x7ed1b41d;
  static final int STEP = 0xcccccccd;
  static final int STEP_ADDED = 0xe6546b64;
  static final int STEP_BITS = 13;
  static final int BLOCK_FIRST = 0xdee13bb1;
  static final int BLOCK_LAST = 0x56ed309b;
  static final int BLOCK_BITS = 15;

  private final long step;

  /** @param step how much the wanted hash grows from a page to the next of the same partition */
  public PageKeys(long step) {
    this.step = step;
  }

  /** Plans print it. */
  public String toString() {
    return "PageKeys of step " + this.step;
  }

  /** Runs the hash backwards: from the wanted hash to the block that comes after the key's hash. */
  public int turn(long pageKey, int partition) {
    long page = Long.reverseBytes(pageKey);
    // The last step of the hash changes nothing: all bits above the lowest 16 are zero.
    int hash = (int) (page * this.step + partition) & WANTED_BITS;
    hash *= END_LAST;
    hash ^= (hash >>> 13) ^ (hash >>> 26);
    hash *= END_FIRST;
    hash ^= (hash >>> 16) ^ INT_BYTES;
    hash = Integer.rotateRight((hash - STEP_ADDED) * STEP, STEP_BITS);
    hash ^= Murmur3_x86_32.hashLong(pageKey, SEED);
    return Integer.rotateRight(hash * BLOCK_LAST, BLOCK_BITS) * BLOCK_FIRST;
  }
}
