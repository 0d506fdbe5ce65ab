package checkback;

import java.util.Arrays;
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
 * The headers of a record, where Spark has them: nothing is copied.
 *
 * <p>One object reads record after record, for one thread: the memory that a record needs is there
 * already. A position that no header has, NONE, stands for a header that is not there; its value is
 * null.
 *
 * <p>Written for Janino, the compiler that Spark ships: no lambdas, no type inference.
 */
final class RecordHeaders {

  static final int NONE = -1;

  /** What the JVM has in a text in place of bytes that are not UTF-8. */
  static final byte[] REPLACEMENT = {(byte) 0xef, (byte) 0xbf, (byte) 0xbd};

  private UnsafeProjection toUnsafe;

  /** The bytes that hold all headers, where in them each name and value begins, and its size. */
  private byte[] from;
  private int[] nameAt = new int[16];
  private int[] nameBytes = new int[16];
  private int[] valueAt = new int[16];
  private int[] valueBytes = new int[16];
  private int count;
  private int sizeInBytes;

  /** Reads the headers of the next record; null for one that has none. */
  void read(ArrayData headers) {
    this.count = 0;
    this.sizeInBytes = 0;
    if (headers == null) {
      return;
    }
    UnsafeArrayData stored = this.stored(headers);
    this.from = (byte[]) stored.getBaseObject();
    this.sizeInBytes = stored.getSizeInBytes();
    this.count = stored.numElements();
    this.makeRoom();
    long begin = stored.getBaseOffset();
    long element = begin + UnsafeArrayData.calculateHeaderPortionInBytes(this.count);
    for (int at = 0; at < this.count; at++) {
      this.locate(at, begin + (Platform.getLong(this.from, element) >>> 32));
      element += 8;
    }
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

  private void makeRoom() {
    if (this.count > this.nameAt.length) {
      this.nameAt = new int[2 * this.count];
      this.nameBytes = new int[2 * this.count];
      this.valueAt = new int[2 * this.count];
      this.valueBytes = new int[2 * this.count];
    }
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

  int count() {
    return this.count;
  }

  /** Takes the last header off: what is read from now on does not have it. */
  void dropLast() {
    this.count--;
  }

  /** Returns how many bytes all headers take together, at most. */
  int sizeInBytes() {
    return this.sizeInBytes;
  }

  /** Returns the bytes in which names and values stand. */
  byte[] bytes() {
    return this.from;
  }

  int nameAt(int at) {
    return this.nameAt[at];
  }

  int nameBytes(int at) {
    return this.nameBytes[at];
  }

  int valueAt(int at) {
    return this.valueAt[at];
  }

  /** Returns the size of a header's value, NONE for a header without one. */
  int valueBytes(int at) {
    return at == NONE ? NONE : this.valueBytes[at];
  }

  UTF8String name(int at) {
    return this.text(this.nameAt[at], this.nameBytes[at]);
  }

  /** Returns a header's value, null or its bytes. */
  UTF8String value(int at) {
    int bytes = this.valueBytes(at);
    return bytes == NONE ? null : this.text(this.valueAt[at], bytes);
  }

  UTF8String text(int at, int bytes) {
    return UTF8String.fromAddress(this.from, Platform.BYTE_ARRAY_OFFSET + at, bytes);
  }

  /** Whether the header has that name. */
  boolean isNamed(int at, byte[] name) {
    return this.nameBytes[at] == name.length && this.areAt(this.nameAt[at], name);
  }

  /** Whether the header has that value. */
  boolean says(int at, byte[] value) {
    return this.valueBytes(at) == value.length && this.areAt(this.valueAt[at], value);
  }

  /** Whether the header has no value, or an empty one. */
  boolean isBlank(int at) {
    return this.valueBytes(at) <= 0;
  }

  /** Whether the header's value begins with these bytes. */
  boolean beginsWith(int at, byte[] beginning) {
    return this.valueBytes(at) >= beginning.length && this.areAt(this.valueAt[at], beginning);
  }

  private boolean areAt(int first, byte[] expected) {
    return Arrays.equals(this.from, first, first + expected.length, expected, 0, expected.length);
  }

  /** Returns the position of the first header of that name from a position on, NONE without one. */
  int find(byte[] name, int first) {
    for (int at = first; at < this.count; at++) {
      if (this.isNamed(at, name)) {
        return at;
      }
    }
    return NONE;
  }

  /**
   * Whether the first headers are those of the protocol's order.
   *
   * @param inOrder their names, in this order
   */
  boolean areInOrder(byte[][] inOrder) {
    if (this.count < inOrder.length) {
      return false;
    }
    for (int at = 0; at < inOrder.length; at++) {
      if (!this.isNamed(at, inOrder[at])) {
        return false;
      }
    }
    return true;
  }

  /** Whether a name from that position on has a NUL, or something that is not UTF-8. */
  boolean hasOddName(int first) {
    for (int at = first; at < this.count; at++) {
      int end = this.nameAt[at] + this.nameBytes[at];
      for (int one = this.nameAt[at]; one < end; one++) {
        byte found = this.from[one];
        boolean isReplaced = found == REPLACEMENT[0] && one + 3 <= end;
        if (found == 0 || (isReplaced && this.areAt(one, REPLACEMENT))) {
          return true;
        }
      }
    }
    return false;
  }

  /**
   * Returns the whole number that a value is, NONE for any other text and for a larger number.
   *
   * @param digitsMax how many digits it may have
   */
  long number(int at, int digitsMax) {
    int size = this.valueBytes(at);
    boolean mayBe = size > 0 && size <= digitsMax;
    return mayBe ? number(this.from, this.valueAt[at], size) : NONE;
  }

  /** Returns the whole number that bytes are: all of them digits, and it fits into 63 bits. */
  static long number(byte[] bytes, int first, int size) {
    long read = size > 0 ? 0 : NONE;
    for (int at = first; at < first + size; at++) {
      int digit = bytes[at] - '0';
      if (digit < 0 || digit > 9 || read > (Long.MAX_VALUE - digit) / 10) {
        return NONE;
      }
      read = 10 * read + digit;
    }
    return read;
  }
}
