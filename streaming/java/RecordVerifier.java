package checkback;

import static checkback.Protocol.*;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.regex.Pattern;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Verifies records by one version of the rules of access control.
 *
 * <p>RecordDecoder asks it about each record
 * (docs/decisions/access.md#verification). The content that is signed is
 * specified in docs/protocol.md.
 *
 * <p>Written for Janino, as RecordHeaders.java.
 */
public final class RecordVerifier implements Serializable {

  static final int BELIEVED = 0;

  static final UTF8String RESUME_HEADER_PREFIX =
      UTF8String.fromString(Protocol.RESUME_HEADER_PREFIX);
  static final UTF8String MANUAL_OPERATOR = UTF8String.fromString(Protocol.MANUAL_OPERATOR);
  static final UTF8String TRUE = UTF8String.fromString("true");

  private final String[] topics;
  private final byte[] namesOfHalf;
  private final byte[] namesOfOp;
  private final String addressPattern;
  private final HashMap accounts = new HashMap();
  private transient Pattern addresses;

  /**
   * @param halfTopic the topic of halves
   * @param opTopic the topic of ops
   * @param namesOfHalf the names of a half's headers in order, a separator after each
   * @param namesOfOp the same of an op
   * @param addressPattern over access key, line end and address; empty if it can match none
   */
  public RecordVerifier(
      String halfTopic, String opTopic, byte[] namesOfHalf, byte[] namesOfOp,
      String addressPattern) {
    this.topics = new String[] {halfTopic, opTopic};
    this.namesOfHalf = namesOfHalf;
    this.namesOfOp = namesOfOp;
    this.addressPattern = addressPattern;
  }

  /** Adds an account, and returns it for its secrets and permissions to be added. */
  public Account account(
      String accessKey, boolean isAdmin, boolean toTopics, boolean toGroups, boolean toAnswers) {
    Account made = new Account(this.topics, isAdmin, toTopics, toGroups, toAnswers);
    this.accounts.put(UTF8String.fromString(accessKey), made);
    return made;
  }

  /** Plans and event logs print it: no secret may show. */
  public String toString() {
    return "RecordVerifier of " + this.accounts.size() + " accounts";
  }

  /**
   * Returns the code of a refusal, 0 for none.
   *
   * @param read the record, its headers compared with the protocol's order
   * @param topic to which it was written: 0 that of halves, 1 that of ops
   */
  int verdict(KafkaRecord read, int topic) {
    if (!read.isInOrder) {
      return ACCESS_KEY_MISSING;
    }
    RecordHeaders headers = read.headers;
    SignedRecord record = read.signed;
    record.read(headers);
    if (!record.isSigned()) {
      return ACCESS_KEY_MISSING;
    }
    if (!record.isReadable()) {
      return SIGNATURE_UNREADABLE;
    }
    long bornMs = record.bornMs();
    if (bornMs == SignedRecord.NONE) {
      return BORN_TIME_UNREADABLE;
    }
    Account account = (Account) this.accounts.get(record.accessKey());
    if (account == null) {
      return ACCESS_KEY_UNKNOWN;
    }
    boolean isHalf = topic == 0;
    record.gather(isHalf ? this.namesOfHalf : this.namesOfOp, read.key);
    int place = isHalf ? SignedRecord.NONE : read.partition;
    if (!account.hasSigned(record, topic, place, read.value)) {
      return SIGNATURE_WRONG;
    }
    if (isHalf && Math.abs(read.timeMs - bornMs) > BORN_TIME_TOLERANCE_MS) {
      return BORN_TIME_WRONG;
    }
    return this.permissionRefusal(isHalf, account, headers, record);
  }

  private int permissionRefusal(
      boolean isHalf, Account account, RecordHeaders headers, SignedRecord record) {
    if (account.isAdmin) {
      return BELIEVED;
    }
    if (record.hasNameWith(isHalf ? RESUME_HEADER_PREFIX : MANUAL_OPERATOR)) {
      return ADMIN_NEEDED;
    }
    if (this.isWhite(record)) {
      return BELIEVED;
    }
    if (isHalf) {
      if (!account.topics.isGranted(headers.value(REAL_TOPIC_OF_HALF))) {
        return TOPIC_NOT_PERMITTED;
      }
      boolean isGranted = account.groups.isGranted(headers.value(PGROUP_OF_HALF));
      return isGranted ? BELIEVED : GROUP_NOT_PERMITTED;
    }
    boolean answers = TRUE.equals(headers.value(ANSWERS_CHECK_OF_OP));
    Permissions needed = answers ? account.answers : account.groups;
    return needed.isGranted(headers.value(PGROUP_OF_OP)) ? BELIEVED : GROUP_NOT_PERMITTED;
  }

  /** Whether an address list has the address that the signature covers. */
  private boolean isWhite(SignedRecord record) {
    if (this.addressPattern.isEmpty()) {
      return false;
    }
    if (this.addresses == null) {
      this.addresses = Pattern.compile(this.addressPattern);
    }
    String stated = record.accessKey() + "\n" + record.statedAddress();
    return this.addresses.matcher(stated).find();
  }

  /** What an account may do with topics, with groups, or with their checks. */
  static final class Permissions implements Serializable {

    private final boolean byDefault;
    final HashSet others = new HashSet();

    Permissions(boolean byDefault) {
      this.byDefault = byDefault;
    }

    boolean isGranted(UTF8String name) {
      return this.byDefault != this.others.contains(name);
    }
  }

  /** An account: what it may do, and one secret or two while they change. */
  public static final class Account implements Serializable {

    final boolean isAdmin;
    final Permissions topics;
    final Permissions groups;
    final Permissions answers;
    private final String[] writesTo;
    private final ArrayList secrets = new ArrayList();

    Account(
        String[] writesTo, boolean isAdmin, boolean toTopics, boolean toGroups,
        boolean toAnswers) {
      this.writesTo = writesTo;
      this.isAdmin = isAdmin;
      this.topics = new Permissions(toTopics);
      this.groups = new Permissions(toGroups);
      this.answers = new Permissions(toAnswers);
    }

    /** Adds a name for which a permission is not as by default. */
    public void exempt(String kind, String name) {
      boolean isTopic = kind.equals(TOPIC);
      Permissions some = isTopic ? this.topics : kind.equals(GROUP) ? this.groups : this.answers;
      some.others.add(UTF8String.fromString(name));
    }

    /** Adds a secret as the two blocks that its HMAC begins with (RFC 2104). */
    public void secret(String algorithm, String hash, byte[] inner, byte[] outer) {
      byte[][] beginnings = new byte[this.writesTo.length][];
      for (int at = 0; at < beginnings.length; at++) {
        String line = algorithm + " " + this.writesTo[at] + " ";
        beginnings[at] = line.getBytes(StandardCharsets.UTF_8);
      }
      this.secrets.add(new SignedRecord.Secret(beginnings, hash, inner, outer));
    }

    boolean hasSigned(SignedRecord record, int topic, int partition, byte[] value) {
      for (int at = 0; at < this.secrets.size(); at++) {
        SignedRecord.Secret secret = (SignedRecord.Secret) this.secrets.get(at);
        if (record.isSignedWith(secret, topic, partition, value)) {
          return true;
        }
      }
      return false;
    }
  }
}
