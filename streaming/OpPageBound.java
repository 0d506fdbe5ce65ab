package checkback;

import java.io.Serializable;
import java.util.HashMap;
import java.util.HashSet;
import org.apache.spark.TaskContext;

/**
 * Tells of an op whether there is nothing that it can name, or its group names too many pages.
 *
 * <p>Spark's compiled loop over rows calls it once for each op
 * (docs/decisions/query.md#op-range). Counted are
 * pages of which the batch, by its plan, reads no half: later ones, and earlier ones. They are
 * counted for each Kafka partition of ops on its own: one task reads a partition's records of a
 * batch in their order, so the same ops are refused whenever the batch runs, whichever partitions
 * share a task.
 *
 * <p>Written for Janino, as RecordVerifier.java.
 */
public final class OpPageBound implements Serializable {

  static final int ADMITTED = 0;
  static final int OP_WITHOUT_HALF = 32;
  static final int OP_PAGES_EXCEEDED = 33;

  /**
   * The driver tells under it, for each partition of the half topic, where the batch begins and ends,
   * and which offset is the first that an op may name, and the one after the last.
   */
  static final String HALF_PAGES = "checkback.half_pages";
  static final int GROUPS_AT_ONCE = 4;

  /** Of earlier pages ten times as many: answers to checks name such pages. */
  static final int EARLIER_PAGES = 10;

  static final int TRANSACTION_BITS = 48;
  static final long DIRECT_SOURCE = 4611686018427387904L;

  private final long pageSize;
  private final boolean isVerified;
  private transient TaskContext task;
  private transient long[] readBegins;
  private transient long[] readEnds;
  private transient long[] firsts;
  private transient long[] ends;
  private transient HashMap named;

  /**
   * @param pageSize half offsets per page
   * @param isVerified whether ops are of the group that they name: only then can one group take no
   *     earlier pages from another, whose ops may be answers that nobody gives a second time
   */
  public OpPageBound(long pageSize, boolean isVerified) {
    this.pageSize = pageSize;
    this.isVerified = isVerified;
  }

  /** Plans print it. */
  public String toString() {
    return "OpPageBound of " + this.pageSize;
  }

  /**
   * Returns the code of a refusal, 0 for none. Asked twice about an op it answers the same.
   *
   * @param partition of the op and of its half
   * @param sourceOffset of the op, with DIRECT_SOURCE added on the direct op topic
   * @param halfOffset that the op names
   * @param identity the first word of the op's identity; its upper bits tell the group
   * @param isDelivered whether it is a delivered op, which no number of pages may stop
   * @param ofGroup how many later pages a group may name
   */
  public int refusal(
      int partition, long sourceOffset, long halfOffset, long identity, boolean isDelivered,
      int ofGroup) {
    TaskContext now = TaskContext.get();
    if (now != this.task) {
      this.begin(now);
    }
    if (this.readEnds == null) {
      return ADMITTED;
    }
    boolean isKnown = partition < this.readEnds.length;
    if (isKnown && (halfOffset < this.firsts[partition] || halfOffset >= this.ends[partition])) {
      return OP_WITHOUT_HALF;
    }
    boolean isEarlier = isKnown && halfOffset < this.readBegins[partition];
    if (isDelivered || (isKnown && !isEarlier && halfOffset < this.readEnds[partition])) {
      return ADMITTED;
    }
    if (isEarlier && !this.isVerified) {
      return ADMITTED;
    }
    Pages pages = this.pagesOf(partition, sourceOffset >= DIRECT_SOURCE, isEarlier);
    Long group = Long.valueOf(identity >> TRANSACTION_BITS);
    Long page = Long.valueOf(halfOffset / this.pageSize);
    long ofOne = isEarlier ? (long) EARLIER_PAGES * ofGroup : ofGroup;
    long ofAll = isEarlier ? Long.MAX_VALUE : (long) GROUPS_AT_ONCE * ofGroup;
    return pages.admit(group, page, ofOne, ofAll) ? ADMITTED : OP_PAGES_EXCEEDED;
  }

  private Pages pagesOf(int partition, boolean isDirect, boolean isEarlier) {
    Long counted = Long.valueOf(partition * 4L + (isDirect ? 2L : 0L) + (isEarlier ? 1L : 0L));
    Pages found = (Pages) this.named.get(counted);
    if (found == null) {
      found = new Pages();
      this.named.put(counted, found);
    }
    return found;
  }

  private void begin(TaskContext now) {
    String told = now == null ? null : now.getLocalProperty(HALF_PAGES);
    this.task = now;
    this.named = new HashMap();
    this.readEnds = null;
    if (told != null) {
      this.hear(told.isEmpty() ? new String[0] : told.split(","));
    }
  }

  /** Takes the pages of which the batch reads a half, from their first offset to the last one's end. */
  private void hear(String[] partitions) {
    this.readBegins = new long[partitions.length];
    this.readEnds = new long[partitions.length];
    this.firsts = new long[partitions.length];
    this.ends = new long[partitions.length];
    for (int at = 0; at < partitions.length; at++) {
      String[] told = partitions[at].split(":");
      long size = this.pageSize;
      this.readBegins[at] = Long.parseLong(told[0]) / size * size;
      this.readEnds[at] = (Long.parseLong(told[1]) + size - 1L) / size * size;
      this.firsts[at] = Long.parseLong(told[2]);
      this.ends[at] = Long.parseLong(told[3]);
    }
  }

  /** The pages that the ops of one Kafka partition have named so far: of each group, and of all. */
  static final class Pages {

    private final HashMap ofGroups = new HashMap();
    private final HashSet ofAll = new HashSet();

    boolean admit(Long group, Long page, long ofOne, long ofAll) {
      HashSet own = (HashSet) this.ofGroups.get(group);
      if (own == null) {
        own = new HashSet();
        this.ofGroups.put(group, own);
      }
      if (own.contains(page)) {
        return true;
      }
      if (own.size() >= ofOne) {
        return false;
      }
      if (!this.ofAll.contains(page)) {
        if (this.ofAll.size() >= ofAll) {
          return false;
        }
        this.ofAll.add(page);
      }
      own.add(page);
      return true;
    }
  }
}
