package io.checkback.client.internal.records;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.ByteArrayOutputStream;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import java.util.function.LongSupplier;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Signs records in the name of an account (docs/protocol.md, Signed records). Threads may share it. */
public final class RecordSigner {
    /** How far the time that a half states may be from the brokers', in milliseconds. */
    public static final long BORN_TIME_TOLERANCE_MS = 300_000;

    /** The hashes that an account may have. */
    public static final Set<String> ALGORITHMS = Set.of("HmacSHA256", "HmacSHA1");

    private static final int SIGNATURE_BYTES_MAX = 44;
    private static final int TIME_DIGITS_MAX = 13;
    /** Stands between names and values in what is signed. */
    static final byte SEPARATOR = (byte) 0xff;

    private static final Set<Byte> NOT_IN_ACCESS_KEYS = Set.of(
            Character.CONTROL, Character.SURROGATE, Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR,
            Character.SPACE_SEPARATOR);

    private final String accessKey;
    private final SecretKeySpec secret;
    private final String algorithm;
    private final Header bornHost;
    private final LongSupplier nowMs;

    /**
     * @param accessKey the account
     * @param secretKey its secret
     * @param algorithm its hash, one of {@link #ALGORITHMS}
     * @param bornHost the address to state, empty for none
     * @param nowMs the brokers' time as well as it is known, milliseconds since 1970
     * @throws ConfigException the address is none, or no account can have the access key
     */
    public RecordSigner(
            String accessKey, String secretKey, String algorithm, String bornHost, LongSupplier nowMs) {
        boolean isUsable = accessKey.codePoints()
                .noneMatch(point -> NOT_IN_ACCESS_KEYS.contains((byte) Character.getType(point)));
        if (!isUsable) {
            throw new ConfigException(
                    "The access key '" + accessKey + "' has a space or a control character. No account has"
                            + " such a key.");
        }
        this.accessKey = accessKey;
        this.secret = new SecretKeySpec(secretKey.getBytes(UTF_8), algorithm);
        this.algorithm = algorithm;
        this.bornHost = bornHost.isEmpty() ? null : Records.header(PropertyNames.BORN_HOST, inFull(bornHost));
        this.nowMs = nowMs;
    }

    /** Returns how many bytes signing adds to a record, at most. */
    public int bytesMax() {
        int tail = TIME_DIGITS_MAX + accessKey.getBytes(UTF_8).length + 2 + SIGNATURE_BYTES_MAX;
        int host = bornHost == null ? 0 : RecordSize.headerBytesMax(bornHost.key(), bornHost.value().length);
        return host + RecordSize.headerBytesMax(PropertyNames.SIGNATURE, tail);
    }

    /**
     * Returns the headers of a record, signed.
     *
     * @param topic where the record is written to
     * @param partition of an op; null for a half, which may go to any
     * @param key the record's key, null for none
     * @param value the record's value, null for none
     * @param headers the record's headers, without a signature
     */
    public List<Header> sign(
            String topic, Integer partition, byte[] key, byte[] value, List<Header> headers) {
        List<Header> signed = new ArrayList<>(headers);
        if (bornHost != null) {
            signed.add(bornHost);
        }
        byte[] stated = (nowMs.getAsLong() + " " + accessKey + " ").getBytes(UTF_8);
        signed.add(new RecordHeader(PropertyNames.SIGNATURE, stated));
        byte[] signature = Base64.getEncoder().encode(mac(content(topic, partition, key, value, signed)));
        byte[] whole = new byte[stated.length + signature.length];
        System.arraycopy(stated, 0, whole, 0, stated.length);
        System.arraycopy(signature, 0, whole, stated.length, signature.length);
        signed.set(signed.size() - 1, new RecordHeader(PropertyNames.SIGNATURE, whole));
        return signed;
    }

    /** Returns the bytes that are signed; the last header is Signature, without the signature. */
    byte[] content(String topic, Integer partition, byte[] key, byte[] value, List<Header> headers) {
        ByteArrayOutputStream head = new ByteArrayOutputStream(512);
        for (Header header : headers) {
            head.writeBytes(header.key().getBytes(UTF_8));
            head.write(SEPARATOR);
        }
        for (Header header : headers) {
            head.writeBytes(header.value() == null ? new byte[0] : header.value());
            head.write(SEPARATOR);
        }
        String line = String.join(
                " ",
                algorithm,
                topic,
                partition == null ? "-" : partition.toString(),
                Integer.toString(head.size()),
                key == null ? "-" : Integer.toString(key.length));
        ByteArrayOutputStream content = new ByteArrayOutputStream(head.size() + 1_024);
        content.writeBytes((line + "\n").getBytes(UTF_8));
        content.writeBytes(head.toByteArray());
        content.writeBytes(key == null ? new byte[0] : key);
        content.writeBytes(value == null ? new byte[0] : value);
        return content.toByteArray();
    }

    private byte[] mac(byte[] content) {
        try {
            Mac mac = Mac.getInstance(algorithm);
            mac.init(secret);
            return mac.doFinal(content);
        } catch (GeneralSecurityException error) {
            throw new ConfigException("This Java has no " + algorithm + ".");
        }
    }

    private static String inFull(String host) {
        boolean isAddress = host.matches("[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*");
        try {
            if (isAddress) {
                InetAddress address = InetAddress.getByName(host);
                if (!(address instanceof Inet6Address)) {
                    return mapped(host, address.getHostAddress());
                }
                byte[] bytes = address.getAddress();
                StringBuilder full = new StringBuilder();
                for (int at = 0; at < bytes.length; at += 2) {
                    full.append(at == 0 ? "" : ":").append(String.format("%02x%02x", bytes[at], bytes[at + 1]));
                }
                return full.toString();
            }
        } catch (UnknownHostException error) {
            isAddress = false;
        }
        throw new ConfigException(
                "The born host '" + host + "' is no IP address. Give the one of this process, or leave it out.");
    }

    /** Java reads an IPv4 address in IPv6 form as IPv4; a record states the form that was given. */
    private static String mapped(String given, String plain) {
        if (!given.contains(":")) {
            return plain;
        }
        String[] parts = plain.split("\\.");
        return String.format(
                "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x",
                Integer.parseInt(parts[0]),
                Integer.parseInt(parts[1]),
                Integer.parseInt(parts[2]),
                Integer.parseInt(parts[3]));
    }
}
