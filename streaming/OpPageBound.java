package checkback;

import java.io.Serializable;
import java.util.HashMap;
import java.util.HashSet;
import org.apache.spark.TaskContext;

/**
 * Tells of an op whether its group names too many pages that can have no half yet.
 *
 * <p>Spark's compiled loop over rows calls it once for each op (docs/decisions/048). Such a page lies
 * behind all that the batch, by its plan, reads of the half topic. Pages are counted for each Kafka
 * partition of ops on its own: one task reads a partition's records of a batch in their order, so
 * the same ops are refused whenever the batch runs, whichever partitions share a task.
 *
 * <p>Written for Janino, as RecordVerifier.java.
 */
public final class OpPageBound implements Serializable {

  static final int ADMITTED = 0;
  static final int OP_PAGES_EXCEEDED = 33;

  /** The driver tells under it where the batch ends in each partition of the half topic. */
  static final String HALF_ENDS = "checkback.half_ends";
  static final int GROUPS_AT_ONCE = 4;
  static final int TRANSACTION_BITS = 48;
  static final long DIRECT_SOURCE = 4611686018427387904L;

  private final long pageSize;
  private transient TaskContext task;
  private transient long[] readEnds;
  private transient HashMap named;

  /** @param pageSize half offsets per page */
  public OpPageBound(long pageSize) {
    this.pageSize = pageSize;
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
   * @param ofGroup how many pages a group may name
   */
  public int refusal(
      int partition, long sourceOffset, long halfOffset, long identity, int ofGroup) {
    TaskContext now = TaskContext.get();
    if (now != this.task) {
      this.begin(now);
    }
    if (this.readEnds == null
        || (partition < this.readEnds.length && halfOffset < this.readEnds[partition])) {
      return ADMITTED;
    }
    Long source = Long.valueOf(partition * 2L + (sourceOffset >= DIRECT_SOURCE ? 1L : 0L));
    Pages pages = (Pages) this.named.get(source);
    if (pages == null) {
      pages = new Pages();
      this.named.put(source, pages);
    }
    Long group = Long.valueOf(identity >> TRANSACTION_BITS);
    return pages.admit(group, Long.valueOf(halfOffset / this.pageSize), ofGroup)
        ? ADMITTED
        : OP_PAGES_EXCEEDED;
  }

  private void begin(TaskContext now) {
    String told = now == null ? null : now.getLocalProperty(HALF_ENDS);
    this.task = now;
    this.readEnds = told == null ? null : this.endsOfReadPages(told);
    this.named = new HashMap();
  }

  /** Returns by partition the first offset of the first page of which the batch reads nothing. */
  private long[] endsOfReadPages(String told) {
    String[] ends = told.isEmpty() ? new String[0] : told.split(",");
    long[] found = new long[ends.length];
    for (int at = 0; at < ends.length; at++) {
      long pages = (Long.parseLong(ends[at]) + this.pageSize - 1L) / this.pageSize;
      found[at] = pages * this.pageSize;
    }
    return found;
  }

  /** The pages that the ops of one Kafka partition have named so far: of each group, and of all. */
  static final class Pages {

    private final HashMap ofGroups = new HashMap();
    private final HashSet ofAll = new HashSet();

    boolean admit(Long group, Long page, int ofGroup) {
      HashSet own = (HashSet) this.ofGroups.get(group);
      if (own == null) {
        own = new HashSet();
        this.ofGroups.put(group, own);
      }
      if (own.contains(page)) {
        return true;
      }
      if (own.size() >= ofGroup) {
        return false;
      }
      if (!this.ofAll.contains(page)) {
        if (this.ofAll.size() >= (long) GROUPS_AT_ONCE * ofGroup) {
          return false;
        }
        this.ofAll.add(page);
      }
      own.add(page);
      return true;
    }
  }
}
