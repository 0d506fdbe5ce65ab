package checkback;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Tells of a record whether it may be believed, by one version of the rules of access control.
 *
 * <p>Spark's compiled loop over rows calls it once for each record (docs/decisions/043). The content
 * that is signed is specified in docs/protocol.md. tests/unit compares the constants with Python's.
 *
 * <p>Written for Janino, the compiler that Spark ships: no lambdas, no type inference.
 */
public final class RecordVerifier implements Serializable {

  static final int BELIEVED = 0;
  static final int ACCESS_KEY_MISSING = 80;
  static final int ACCESS_KEY_UNKNOWN = 81;
  static final int SIGNATURE_WRONG = 82;
  static final int BORN_TIME_WRONG = 83;
  static final int TOPIC_NOT_PERMITTED = 84;
  static final int GROUP_NOT_PERMITTED = 85;
  static final int ADMIN_NEEDED = 86;

  static final long BORN_TIME_TOLERANCE_MS = 300000L;

  /** Where the protocol's order has them, in a half and in an op. */
  static final int PGROUP_OF_HALF = 1;
  static final int REAL_TOPIC_OF_HALF = 3;
  static final int PGROUP_OF_OP = 2;
  static final int ANSWERS_CHECK_OF_OP = 4;
  static final int HEADERS_IN_ORDER = 5;

  static final UTF8String ACCESS_KEY = UTF8String.fromString("AccessKey");
  static final UTF8String BORN_TIMESTAMP = UTF8String.fromString("BORN_TIMESTAMP");
  static final UTF8String SIGNATURE = UTF8String.fromString("Signature");
  static final int SIGNED_TAIL = 3;
  static final UTF8String BORN_HOST = UTF8String.fromString("__BORNHOST");
  static final UTF8String RESUME_HEADER_PREFIX = UTF8String.fromString("__checkback.resume.");
  static final UTF8String MANUAL_OPERATOR = UTF8String.fromString("MANUAL_OPERATOR");
  static final UTF8String TRUE = UTF8String.fromString("true");
  static final UTF8String TAGS = UTF8String.fromString("TAGS");
  static final UTF8String OP_TAG_FENCED = UTF8String.fromString("f");
  static final byte SEPARATOR = (byte) 0xff;

  /** Kinds of permissions, as checkback.streaming.access_table has them. */
  static final String TOPIC = "T";
  static final String GROUP = "G";

  private final String[] topics;
  private final String addressPattern;
  private final HashMap accounts = new HashMap();
  private transient Pattern addresses;

  /**
   * @param halfTopic the topic of halves
   * @param opTopic the topic of ops
   * @param directOpTopic the topic of ops of direct halves
   * @param addressPattern over access key, line end and address; empty if it can match none
   */
  public RecordVerifier(
      String halfTopic, String opTopic, String directOpTopic, String addressPattern) {
    this.topics = new String[] {halfTopic, opTopic, directOpTopic};
    this.addressPattern = addressPattern;
  }

  /** Adds an account, and returns it for its secrets and permissions to be added. */
  public Account account(
      String accessKey, boolean isAdmin, boolean toTopics, boolean toGroups, boolean toAnswers) {
    Account made = new Account(isAdmin, toTopics, toGroups, toAnswers);
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
   * @param isHalf whether the record stands on the half topic
   * @param isDirectOp whether it stands on the topic of ops of direct halves
   * @param isFeedback whether it stands on the feedback topic, where only the pipeline may write:
   *     Kafka's ACLs see to it
   * @param inOrder whether its first headers are those of the protocol's order
   * @param partition of its topic
   * @param timeMs when the brokers stored it
   */
  public int refusal(
      boolean isHalf, boolean isDirectOp, boolean isFeedback, boolean inOrder, int partition,
      long timeMs, byte[] key, byte[] value, ArrayData headers) {
    if (isFeedback || (isDirectOp && saysFenced(headers))) {
      return BELIEVED;
    }
    if (!inOrder || headers == null) {
      return ACCESS_KEY_MISSING;
    }
    SignedHeaders signed = new SignedHeaders(headers);
    UTF8String accessKey = signed.accessKey();
    if (accessKey == null) {
      return ACCESS_KEY_MISSING;
    }
    Account account = (Account) this.accounts.get(accessKey);
    if (account == null) {
      return ACCESS_KEY_UNKNOWN;
    }
    String topic = this.topics[isHalf ? 0 : isDirectOp ? 2 : 1];
    if (!account.hasSigned(topic, isHalf ? -1 : partition, signed, key, value)) {
      return SIGNATURE_WRONG;
    }
    if (isHalf && !signed.isBornAround(timeMs)) {
      return BORN_TIME_WRONG;
    }
    return this.permissionRefusal(isHalf, accessKey, account, signed);
  }

  /**
   * The pipeline does not sign that a session is fenced. Whoever else says it stops nothing: under
   * these rules no half is a direct one.
   */
  private static boolean saysFenced(ArrayData headers) {
    if (headers == null || headers.numElements() == 0) {
      return false;
    }
    InternalRow tag = headers.getStruct(0, 2);
    return TAGS.equals(tag.getUTF8String(0)) && OP_TAG_FENCED.equals(bytes(tag));
  }

  /** Returns a header's value, null or its bytes; they are copied only where Spark did not. */
  private static UTF8String bytes(InternalRow header) {
    if (header.isNullAt(1)) {
      return null;
    }
    return header instanceof UnsafeRow
        ? header.getUTF8String(1)
        : UTF8String.fromBytes(header.getBinary(1));
  }

  private int permissionRefusal(
      boolean isHalf, UTF8String accessKey, Account account, SignedHeaders signed) {
    if (account.isAdmin) {
      return BELIEVED;
    }
    if (signed.hasNameWith(isHalf ? RESUME_HEADER_PREFIX : MANUAL_OPERATOR)) {
      return ADMIN_NEEDED;
    }
    if (this.isWhite(accessKey, signed)) {
      return BELIEVED;
    }
    if (isHalf) {
      if (!account.topics.isGranted(signed.values[REAL_TOPIC_OF_HALF])) {
        return TOPIC_NOT_PERMITTED;
      }
      return account.groups.isGranted(signed.values[PGROUP_OF_HALF])
          ? BELIEVED
          : GROUP_NOT_PERMITTED;
    }
    boolean answers = TRUE.equals(signed.values[ANSWERS_CHECK_OF_OP]);
    Permissions needed = answers ? account.answers : account.groups;
    return needed.isGranted(signed.values[PGROUP_OF_OP]) ? BELIEVED : GROUP_NOT_PERMITTED;
  }

  /** Whether an address list has the address that the signature covers. */
  private boolean isWhite(UTF8String accessKey, SignedHeaders signed) {
    if (this.addressPattern.isEmpty()) {
      return false;
    }
    if (this.addresses == null) {
      this.addresses = Pattern.compile(this.addressPattern);
    }
    return this.addresses.matcher(accessKey.toString() + "\n" + signed.statedAddress()).find();
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
    private final ArrayList secrets = new ArrayList();

    Account(boolean isAdmin, boolean toTopics, boolean toGroups, boolean toAnswers) {
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
      this.secrets.add(new Secret(algorithm, hash, inner, outer));
    }

    boolean hasSigned(
        String topic, int partition, SignedHeaders signed, byte[] key, byte[] value) {
      if (signed.signature() == null) {
        return false;
      }
      byte[] given = signed.signature().getBytes();
      byte[] head = signed.head();
      for (int at = 0; at < this.secrets.size(); at++) {
        Secret secret = (Secret) this.secrets.get(at);
        byte[] sizes = secret.sizes(topic, partition, head.length, key);
        if (MessageDigest.isEqual(secret.sign(sizes, head, key, value), given)) {
          return true;
        }
      }
      return false;
    }
  }

  /** A secret, with the hashes of its blocks begun: they are copied for each record. */
  static final class Secret implements Serializable {

    private final String algorithm;
    private final String hash;
    private final byte[] inner;
    private final byte[] outer;
    private transient MessageDigest innerBegun;
    private transient MessageDigest outerBegun;

    Secret(String algorithm, String hash, byte[] inner, byte[] outer) {
      this.algorithm = algorithm;
      this.hash = hash;
      this.inner = inner;
      this.outer = outer;
    }

    /** Returns the line that the content begins with. */
    byte[] sizes(String topic, int partition, int headBytes, byte[] key) {
      String of = partition < 0 ? "-" : Integer.toString(partition);
      String keyBytes = key == null ? "-" : Integer.toString(key.length);
      String place = this.algorithm + " " + topic + " " + of;
      return (place + " " + headBytes + " " + keyBytes + "\n").getBytes(StandardCharsets.UTF_8);
    }

    /** Returns the signature in Base64. */
    byte[] sign(byte[] sizes, byte[] head, byte[] key, byte[] value) {
      try {
        if (this.outerBegun == null) {
          this.innerBegun = begun(this.inner);
          this.outerBegun = begun(this.outer);
        }
        MessageDigest digest = (MessageDigest) this.innerBegun.clone();
        digest.update(sizes);
        digest.update(head);
        if (key != null) {
          digest.update(key);
        }
        if (value != null) {
          digest.update(value);
        }
        MessageDigest last = (MessageDigest) this.outerBegun.clone();
        return Base64.getEncoder().encode(last.digest(digest.digest()));
      } catch (GeneralSecurityException error) {
        throw new IllegalStateException(this.hash, error);
      } catch (CloneNotSupportedException error) {
        throw new IllegalStateException(this.hash, error);
      }
    }

    private MessageDigest begun(byte[] block) throws GeneralSecurityException {
      MessageDigest digest = MessageDigest.getInstance(this.hash);
      digest.update(block);
      return digest;
    }
  }

  /** The headers of a record, whose values are read where they stand in memory. */
  static final class SignedHeaders {

    final UTF8String[] names;
    final UTF8String[] values;
    private final int size;

    SignedHeaders(ArrayData headers) {
      this.size = headers.numElements();
      this.names = new UTF8String[this.size];
      this.values = new UTF8String[this.size];
      for (int at = 0; at < this.size; at++) {
        InternalRow header = headers.getStruct(at, 2);
        this.names[at] = header.getUTF8String(0);
        this.values[at] = RecordVerifier.bytes(header);
      }
    }

    /** Returns null where the last headers are not those of a signed record. */
    UTF8String accessKey() {
      int tail = this.size - SIGNED_TAIL;
      boolean isSigned =
          tail >= HEADERS_IN_ORDER
              && ACCESS_KEY.equals(this.names[tail])
              && BORN_TIMESTAMP.equals(this.names[tail + 1])
              && SIGNATURE.equals(this.names[tail + 2]);
      return isSigned ? this.values[tail] : null;
    }

    UTF8String signature() {
      return this.values[this.size - 1];
    }

    boolean isBornAround(long timeMs) {
      UTF8String said = this.values[this.size - 2];
      if (said == null) {
        return false;
      }
      try {
        long bornMs = Long.parseLong(new String(said.getBytes(), StandardCharsets.ISO_8859_1));
        return bornMs >= timeMs - BORN_TIME_TOLERANCE_MS
            && bornMs <= timeMs + BORN_TIME_TOLERANCE_MS;
      } catch (NumberFormatException error) {
        return false;
      }
    }

    String statedAddress() {
      int before = this.size - SIGNED_TAIL - 1;
      boolean isStated = BORN_HOST.equals(this.names[before]) && this.values[before] != null;
      return isStated ? this.values[before].toString() : "";
    }

    boolean hasNameWith(UTF8String text) {
      for (int at = HEADERS_IN_ORDER; at < this.size - SIGNED_TAIL; at++) {
        if (this.names[at].contains(text)) {
          return true;
        }
      }
      return false;
    }

    /** Returns all names, then all values but the signature, which can't sign itself. */
    byte[] head() {
      byte[] head = new byte[this.headBytes()];
      int end = 0;
      for (int at = 0; at < this.size; at++) {
        end = this.append(head, end, this.names[at]);
      }
      for (int at = 0; at < this.size - 1; at++) {
        end = this.append(head, end, this.values[at]);
      }
      return head;
    }

    private int headBytes() {
      int bytes = 2 * this.size - 1;
      for (int at = 0; at < this.size; at++) {
        bytes += this.names[at].numBytes();
        boolean isLeftOut = at == this.size - 1 || this.values[at] == null;
        bytes += isLeftOut ? 0 : this.values[at].numBytes();
      }
      return bytes;
    }

    private int append(byte[] head, int end, UTF8String part) {
      if (part != null) {
        part.writeToMemory(head, Platform.BYTE_ARRAY_OFFSET + end);
        end += part.numBytes();
      }
      head[end] = SEPARATOR;
      return end + 1;
    }
  }
}
