package checkback;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * The record that a thread reads, and the event that becomes of it.
 *
 * <p>One object is record after record. Written for Janino, as RecordHeaders.java.
 */
final class KafkaRecord {

  static final int COLUMNS = 9;
  static final byte[] TAGS = RecordDecoder.bytes(Protocol.TAGS);

  final Thread thread;
  final RecordHeaders headers = new RecordHeaders();
  final EventIdentity identity = new EventIdentity();
  final SignedRecord signed = new SignedRecord();
  private final long pageSize;
  private final UnsafeRow row = new UnsafeRow(COLUMNS);
  int partition;
  long offset;
  long timeMs;
  byte[] key;
  byte[] value;
  boolean isInOrder;
  private byte[][] names;

  KafkaRecord(Thread thread, long pageSize) {
    this.thread = thread;
    this.pageSize = pageSize;
    int size = UnsafeRow.calculateBitSetWidthInBytes(COLUMNS) + 8 * COLUMNS;
    this.row.pointTo(new byte[size], size);
  }

  void begin(
      int partition, long offset, long timeMs, byte[] key, byte[] value, ArrayData headers) {
    this.headers.read(headers);
    this.partition = partition;
    this.offset = offset;
    this.timeMs = timeMs;
    this.key = key;
    this.value = value;
  }

  /** Takes the order that the protocol has for headers of its kind. */
  void order(byte[][] names) {
    this.names = names;
    this.isInOrder = this.headers.areInOrder(names);
  }

  /** Returns where the header stands that the order has at this place, NONE where it is not. */
  int place(int inOrder) {
    return this.isInOrder ? inOrder : this.headers.find(this.names[inOrder], 0);
  }

  /** Whether the first header is that tag. */
  boolean hasTag(byte[] tag) {
    return this.headers.count() > 0 && this.headers.isNamed(0, TAGS) && this.headers.says(0, tag);
  }

  /**
   * Whether other clients would find other headers by name: those in C end a name at a NUL, and
   * some read none that is not UTF-8.
   */
  boolean hasOddName() {
    return this.headers.hasOddName(this.isInOrder ? this.names.length : 0);
  }

  long numberInValue() {
    byte[] said = this.value;
    return said == null ? RecordHeaders.NONE : RecordHeaders.number(said, 0, said.length);
  }

  /**
   * Returns the event as streaming/source/decode.py has its columns.
   *
   * @param offset of the half, or of a record that is refused
   * @param source the offset of the record, as the state has it
   */
  InternalRow event(int kind, long offset, long detail, long source) {
    // The state store walks its rows in the order of their keys' bytes: streaming/pages/page_key.py.
    this.row.setLong(0, Long.reverseBytes(offset / this.pageSize));
    this.row.setInt(1, this.partition);
    this.row.setByte(2, (byte) kind);
    this.row.setLong(3, offset);
    this.row.setLong(4, this.timeMs);
    this.row.setLong(5, this.identity.word());
    this.row.setLong(6, detail);
    this.row.setLong(7, source);
    this.row.setLong(8, this.identity.rest());
    return this.row;
  }
}
