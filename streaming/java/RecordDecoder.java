package checkback;

import static checkback.Protocol.*;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Makes an event of each record of the topics that the pipeline reads
 * (docs/decisions/query.md#decoder).
 *
 * <p>Spark's compiled loop over rows calls it once for each record. A record that can't be taken is
 * an event, too, with the reason. docs/protocol.md says what a record has to look like.
 *
 * <p>Written for Janino, as RecordHeaders.java.
 */
public final class RecordDecoder implements Serializable {

  static final int TAKEN = 0;
  static final int UNKNOWN_STATE = -1;

  static final byte[] TRUE = bytes("true");
  static final byte[] OP_TAG_REMOVE = bytes(Protocol.OP_TAG_REMOVE);
  static final byte[] OP_TAG_UNDELIVERED = bytes(Protocol.OP_TAG_UNDELIVERED);
  static final byte[] TRANSACTION_CHECK_TIMES = bytes(Protocol.TRANSACTION_CHECK_TIMES);

  static final byte[][] NAMES_OF_HALF = all(HALF_ORDER);
  static final byte[][] NAMES_OF_OP = all(OP_ORDER);
  static final byte[][] KNOWN_STATES = all(STATES);
  static final byte[][] KINDS_OF_DECIDED = all(DECIDED_KINDS);

  /** Kinds of ops besides those of KINDS_OF_DECIDED: read by the job, read from the direct topic. */
  static final int READ = -1;
  static final int DIRECT = -2;

  static final byte[] DELIVERED_STATE = bytes(DELIVERED);

  private final UTF8String halfTopic;
  private final UTF8String directOpTopic;
  private final UTF8String feedbackTopic;
  private final UTF8String decidedTopic;
  private final long pageSize;
  private final HashSet systemTopics = new HashSet();
  private final byte[][] systemPrefixes;
  private RecordVerifier verifier;
  private final BatchTerms terms = new BatchTerms();
  private transient KafkaRecord reading;

  /**
   * @param halfTopic the topic of halves
   * @param directOpTopic the former topic on which an op may say delivered
   * @param feedbackTopic the topic of feedback; a record of any other topic is an op
   * @param decidedTopic the topic on which relays write what they made of each op
   * @param systemTopics names of topics for which no half may be, a space between two of them
   * @param systemPrefixes what names of such topics begin with, in the same way
   * @param pageSize half offsets per page
   */
  public RecordDecoder(
      String halfTopic, String directOpTopic, String feedbackTopic, String decidedTopic,
      String systemTopics, String systemPrefixes, long pageSize) {
    this.halfTopic = UTF8String.fromString(halfTopic);
    this.directOpTopic = UTF8String.fromString(directOpTopic);
    this.feedbackTopic = UTF8String.fromString(feedbackTopic);
    this.decidedTopic = UTF8String.fromString(decidedTopic);
    String[] names = systemTopics.split(" ");
    for (int at = 0; at < names.length; at++) {
      this.systemTopics.add(UTF8String.fromString(names[at]));
    }
    this.systemPrefixes = all(systemPrefixes.split(" "));
    this.pageSize = pageSize;
  }

  /** Refuses what the rules of access control forbid. With them no op may say delivered. */
  public void verifyBy(RecordVerifier verifier) {
    this.verifier = verifier;
  }

  /** Plans and event logs print it: no secret may show. */
  public String toString() {
    return "RecordDecoder" + (this.verifier == null ? "" : " with " + this.verifier);
  }

  /**
   * Returns the event of a record, in a row that the next call writes over; null for a record of the
   * feedback topic that is no feedback, or of no half: a tick, or a stranger's; for an op that a
   * relay takes; and for a record of the decided topic that is about no op.
   *
   * @param key of the record; only needed where access control is on
   */
  public InternalRow event(
      UTF8String topic, int partition, long offset, long timestampUs, byte[] key, byte[] value,
      ArrayData headers) {
    KafkaRecord record = this.reading();
    record.begin(partition, offset, Math.floorDiv(timestampUs, 1000L), key, value, headers);
    if (topic.equals(this.halfTopic)) {
      return this.half(record);
    }
    if (topic.equals(this.feedbackTopic)) {
      return this.feedback(record);
    }
    if (topic.equals(this.decidedTopic)) {
      return this.decided(record);
    }
    boolean isDirect = topic.equals(this.directOpTopic);
    if (!isDirect && this.terms.isRelayed(partition, offset)) {
      return null;
    }
    return this.op(record, isDirect ? DIRECT : READ);
  }

  /** Returns what reads records for this thread. Tasks have decoders of their own. */
  private KafkaRecord reading() {
    Thread thread = Thread.currentThread();
    KafkaRecord found = this.reading;
    if (found == null || found.thread != thread) {
      found = new KafkaRecord(thread, this.pageSize);
      this.reading = found;
    }
    return found;
  }

  private InternalRow half(KafkaRecord record) {
    RecordHeaders headers = record.headers;
    record.order(NAMES_OF_HALF);
    int group = record.place(PGROUP_OF_HALF);
    int id = record.place(UNIQ_KEY_OF_HALF);
    record.identity.read(headers, group, id);
    int refusal = this.verdict(record, 0);
    if (refusal == TAKEN) {
      refusal = this.refusalOfHalf(record, group, id);
    }
    if (refusal != TAKEN) {
      return record.event(REFUSED_HALF, record.offset, refusal, record.offset);
    }
    long immunityS = headers.number(record.place(IMMUNITY_OF_HALF), IMMUNITY_DIGITS_MAX);
    long immunityMs = immunityS == RecordHeaders.NONE ? NO_IMMUNITY : 1000L * immunityS;
    return record.event(HALF, record.offset, immunityMs, record.offset);
  }

  private int refusalOfHalf(KafkaRecord record, int group, int id) {
    RecordHeaders headers = record.headers;
    int realTopic = record.place(REAL_TOPIC_OF_HALF);
    if (!headers.says(record.place(TRAN_MSG_OF_HALF), TRUE)) {
      return NOT_A_HALF;
    }
    if (headers.isBlank(group)) {
      return HALF_WITHOUT_GROUP;
    }
    if (headers.isBlank(id)) {
      return HALF_WITHOUT_TRANSACTION_ID;
    }
    if (headers.isBlank(realTopic)) {
      return HALF_WITHOUT_REAL_TOPIC;
    }
    if (this.isSystem(headers, realTopic)) {
      return HALF_FOR_SYSTEM_TOPIC;
    }
    if (headers.valueBytes(realTopic) > TOPIC_LENGTH_MAX) {
      return HALF_TOPIC_TOO_LONG;
    }
    if (headers.valueBytes(group) > GROUP_BYTES_MAX || headers.valueBytes(id) > ID_BYTES_MAX) {
      return HALF_NAME_TOO_LONG;
    }
    return refusalOfRest(record, this.terms.bodyBytesMax());
  }

  private boolean isSystem(RecordHeaders headers, int realTopic) {
    for (int at = 0; at < this.systemPrefixes.length; at++) {
      if (headers.beginsWith(realTopic, this.systemPrefixes[at])) {
        return true;
      }
    }
    return this.systemTopics.contains(headers.value(realTopic));
  }

  /** Returns why a half is refused for its other headers or its body. */
  private static int refusalOfRest(KafkaRecord record, int bodyBytesMax) {
    if (record.hasOddName()) {
      return HALF_HEADER_NAME_INVALID;
    }
    if (record.headers.find(TRANSACTION_CHECK_TIMES, 0) != RecordHeaders.NONE) {
      return HALF_WITH_CHECK_TIMES;
    }
    if (record.value == null) {
      return TAKEN; // a tombstone
    }
    int size = record.value.length;
    return size == 0 ? HALF_BODY_EMPTY : size > bodyBytesMax ? HALF_BODY_TOO_LARGE : TAKEN;
  }

  /** Reads what a relay made of an op; the last header says what, and where the op stands. */
  private InternalRow decided(KafkaRecord record) {
    RecordHeaders headers = record.headers;
    int last = headers.count() - 1;
    for (int kind = 0; last >= 0 && kind < KINDS_OF_DECIDED.length; kind++) {
      if (headers.isNamed(last, KINDS_OF_DECIDED[kind])) {
        record.offset = headers.number(last, OFFSET_DIGITS_MAX);
        headers.dropLast();
        return record.offset == RecordHeaders.NONE ? null : this.op(record, kind);
      }
    }
    return null;
  }

  /** @param kind what a relay made of it, or READ or DIRECT */
  private InternalRow op(KafkaRecord record, int kind) {
    long source = record.offset + (kind == DIRECT ? BEFORE_OPS : 0L);
    long named = record.numberInValue();
    record.order(NAMES_OF_OP);
    int group = record.place(PGROUP_OF_OP);
    int id = record.place(UNIQ_KEY_OF_OP);
    record.identity.read(record.headers, group, id);
    int state = this.stateOf(record, kind);
    // Relays deliver only what they have verified, and only the pipeline writes that they did.
    int refusal = kind == DELIVERED_BY_RELAY ? TAKEN : this.verdict(record, 1);
    if (kind == UNREADABLE_FOR_RELAY) {
      refusal = OP_HEADER_NAME_INVALID;
    }
    if (refusal == TAKEN) {
      refusal = refusalOfOp(record, named, state, group, id);
    }
    if (refusal == TAKEN
        && (kind == EARLY_FOR_RELAY || !this.terms.mayName(record.partition, named))) {
      refusal = OP_WITHOUT_HALF;
    }
    if (refusal != TAKEN) {
      return record.event(REFUSED_OP, record.offset, refusal, source);
    }
    return record.event(OP, named, state, source);
  }

  private static int refusalOfOp(KafkaRecord record, long named, int state, int group, int id) {
    RecordHeaders headers = record.headers;
    if (!headers.says(record.place(TAGS_OF_OP), OP_TAG_REMOVE)) {
      return OP_TAG_UNKNOWN;
    }
    if (named == RecordHeaders.NONE) {
      return OP_OFFSET_UNREADABLE;
    }
    if (state == UNKNOWN_STATE) {
      return OP_STATE_UNKNOWN;
    }
    if (headers.isBlank(group)) {
      return OP_WITHOUT_GROUP;
    }
    if (headers.isBlank(id)) {
      return OP_WITHOUT_TRANSACTION_ID;
    }
    return record.hasOddName() ? OP_HEADER_NAME_INVALID : TAKEN;
  }

  private int stateOf(KafkaRecord record, int kind) {
    int place = record.place(STATE_OF_OP);
    for (int at = 0; at < STATES.length; at++) {
      if (record.headers.says(place, KNOWN_STATES[at])) {
        return Integer.parseInt(STATES[at]);
      }
    }
    boolean mayDeliver = kind == DELIVERED_BY_RELAY || (kind == DIRECT && this.verifier == null);
    boolean delivers = mayDeliver && record.headers.says(place, DELIVERED_STATE);
    return delivers ? Integer.parseInt(DELIVERED) : UNKNOWN_STATE;
  }

  private InternalRow feedback(KafkaRecord record) {
    RecordHeaders headers = record.headers;
    boolean hasTimes = headers.count() > 1 && headers.isNamed(1, TRANSACTION_CHECK_TIMES);
    long times = hasTimes ? headers.number(1, Integer.MAX_VALUE) : 0L;
    long named = record.numberInValue();
    if (times <= 0 || named == RecordHeaders.NONE || !record.hasTag(OP_TAG_UNDELIVERED)) {
      return null;
    }
    if (!this.terms.mayName(record.partition, named)) {
      return null;
    }
    record.identity.be(0L);
    return record.event(UNDELIVERED, named, times, record.offset);
  }

  /** @param topic its number, as RecordVerifier has them */
  private int verdict(KafkaRecord record, int topic) {
    if (this.verifier == null) {
      return TAKEN;
    }
    return this.verifier.verdict(record, topic);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[][] all(String[] texts) {
    byte[][] made = new byte[texts.length][];
    for (int at = 0; at < made.length; at++) {
      made[at] = bytes(texts[at]);
    }
    return made;
  }
}
