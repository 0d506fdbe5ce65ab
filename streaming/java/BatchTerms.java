package checkback;

import java.io.Serializable;
import org.apache.spark.TaskContext;

/**
 * The terms of a batch that decoding needs: how large a half's body may be, which halves an op or a
 * feedback may name (docs/decisions/query.md#op-range), and which ops relays take
 * (docs/decisions/relay.md).
 *
 * <p>Spark's compiled loop over rows asks for each record. Written for Janino, as
 * RecordHeaders.java.
 */
public final class BatchTerms implements Serializable {

  private static final long[] NO_SPANS = new long[0];

  private transient TaskContext task;
  private transient int bodyBytesMax;
  private transient long[] firsts;
  private transient long[] ends;
  private transient long[][] relayed;

  /** Plans print it. */
  public String toString() {
    return "BatchTerms";
  }

  /** Returns how large the body of a half may be. */
  public int bodyBytesMax() {
    this.read();
    return this.bodyBytesMax;
  }

  /** Returns whether an op or a feedback of a partition may name that half; of an unknown partition any. */
  public boolean mayName(int partition, long halfOffset) {
    this.read();
    boolean isKnown = partition < this.ends.length;
    return !isKnown || (halfOffset >= this.firsts[partition] && halfOffset < this.ends[partition]);
  }

  /** Returns whether a relay takes an op: the job then reads what the decided topic says of it. */
  public boolean isRelayed(int partition, long opOffset) {
    this.read();
    long[] spans = partition < this.relayed.length ? this.relayed[partition] : NO_SPANS;
    for (int at = 0; at < spans.length; at += 2) {
      if (opOffset >= spans[at] && opOffset < spans[at + 1]) {
        return true;
      }
    }
    return false;
  }

  /**
   * Reads what the driver set for the batch: the largest body, the ranges of the half topic's
   * partitions as first:end,first:end, behind each range the spans of ops that relays take in the
   * same form, and what only the page function reads, a | between them.
   */
  private void read() {
    TaskContext now = TaskContext.get();
    if (now == this.task && this.ends != null) {
      return;
    }
    this.task = now;
    String terms = now == null ? null : now.getLocalProperty(Protocol.TERMS_PROPERTY);
    String[] parts = terms == null ? new String[] {"", ""} : terms.split("\\|", 3);
    this.bodyBytesMax = parts[0].isEmpty() ? Integer.MAX_VALUE : Integer.parseInt(parts[0]);
    this.parse(parts[1].isEmpty() ? new String[0] : parts[1].split(","));
  }

  private void parse(String[] partitions) {
    this.firsts = new long[partitions.length];
    this.ends = new long[partitions.length];
    this.relayed = new long[partitions.length][];
    for (int at = 0; at < partitions.length; at++) {
      String[] range = partitions[at].split(":");
      this.firsts[at] = Long.parseLong(range[0]);
      this.ends[at] = Long.parseLong(range[1]);
      this.relayed[at] = range.length == 2 ? NO_SPANS : new long[range.length - 2];
      for (int bound = 2; bound < range.length; bound++) {
        this.relayed[at][bound - 2] = Long.parseLong(range[bound]);
      }
    }
  }
}
