package checkback;

import java.io.Serializable;
import org.apache.spark.TaskContext;

/**
 * Tells which offsets of the half topic the ops of a batch may name (docs/decisions/query.md#op-range).
 *
 * <p>Spark's compiled loop over rows calls it once for each op. Written for Janino, as
 * RecordHeaders.java.
 */
public final class OpRange implements Serializable {

  private final String property;
  private transient TaskContext task;
  private transient long[] firsts;
  private transient long[] ends;

  /**
   * @param property local property of a batch with, for each partition of the half topic, the first
   *     offset that an op may name and the one after the last: first:end,first:end
   */
  public OpRange(String property) {
    this.property = property;
  }

  /** Plans print it. */
  public String toString() {
    return "OpRange";
  }

  /** Returns whether an op of a partition may name that half; of an unknown partition any. */
  public boolean includes(int partition, long halfOffset) {
    TaskContext now = TaskContext.get();
    if (now != this.task || this.ends == null) {
      this.task = now;
      String ranges = now == null ? null : now.getLocalProperty(this.property);
      this.parse(ranges == null || ranges.isEmpty() ? new String[0] : ranges.split(","));
    }
    boolean isKnown = partition < this.ends.length;
    return !isKnown || (halfOffset >= this.firsts[partition] && halfOffset < this.ends[partition]);
  }

  private void parse(String[] partitions) {
    this.firsts = new long[partitions.length];
    this.ends = new long[partitions.length];
    for (int at = 0; at < partitions.length; at++) {
      String[] range = partitions[at].split(":");
      this.firsts[at] = Long.parseLong(range[0]);
      this.ends[at] = Long.parseLong(range[1]);
    }
  }
}
