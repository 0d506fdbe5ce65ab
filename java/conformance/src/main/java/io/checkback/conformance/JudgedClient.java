package io.checkback.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.checkback.client.CheckbackConfig;
import io.checkback.client.InvalidMessageException;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.SendException;
import io.checkback.client.TopicNotFoundException;
import io.checkback.client.rocketmq.MQClientException;
import io.checkback.client.rocketmq.Message;
import io.checkback.client.rocketmq.MessageExt;
import io.checkback.client.rocketmq.TransactionListener;
import io.checkback.client.rocketmq.TransactionMQProducer;
import io.checkback.client.rocketmq.TransactionSendResult;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.config.ConfigException;

/** Checkback's Java client as a program that the conformance kit judges (docs/writing-a-client.md). */
public final class JudgedClient implements TransactionListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> SETTINGS = Map.of(
            "bootstrap_servers", CheckbackConfig.BOOTSTRAP_SERVERS,
            "topic_prefix", CheckbackConfig.TOPIC_PREFIX,
            "access_key", CheckbackConfig.ACCESS_KEY,
            "secret_key", CheckbackConfig.SECRET_KEY,
            "signature_algorithm", CheckbackConfig.SIGNATURE_ALGORITHM,
            "born_host", CheckbackConfig.BORN_HOST,
            "instance_name", CheckbackConfig.INSTANCE_NAME);

    private final ExecutorService threads = Executors.newFixedThreadPool(16);
    private final Map<Long, CompletableFuture<String>> asked = new ConcurrentHashMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private volatile TransactionMQProducer producer;

    /** Reads commands until the kit closes the stream. */
    public static void main(String[] arguments) throws IOException {
        JudgedClient client = new JudgedClient();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (command.get("do").asText().equals("answer")) {
                client.asked.remove(command.get("id").asLong()).complete(command.get("state").asText());
            } else {
                client.threads.execute(() -> client.carryOut(command));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private void carryOut(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            switch (command.get("do").asText()) {
                case "start" -> start(command);
                case "send" -> send(command, answer);
                case "shutdown" -> answer.put("left", producer.shutdown());
                default -> answer.put("failed", "unsupported");
            }
        } catch (MQClientException | RuntimeException error) {
            answer.put("failed", kind(error instanceof MQClientException ? error.getCause() : error));
            answer.put("text", String.valueOf(error.getMessage()));
        }
        write(answer.put("id", command.get("id").asLong()));
    }

    private static String kind(Throwable error) {
        if (error instanceof SendException failed) {
            return failed.kind().name().toLowerCase(java.util.Locale.ROOT);
        }
        if (error instanceof TopicNotFoundException) {
            return "missing";
        }
        return error instanceof InvalidMessageException || error instanceof ConfigException ? "invalid" : "failed";
    }

    private void start(JsonNode command) throws MQClientException {
        TransactionMQProducer made = new TransactionMQProducer(command.get("group").asText());
        SETTINGS.forEach((field, setting) -> {
            if (command.has(field)) {
                made.set(setting, command.get(field).asText());
            }
        });
        // The kit starts programs while others take all cores; it judges no time of a start.
        made.set(CheckbackConfig.START_TIMEOUT_MS, "60000");
        made.setTransactionListener(this);
        made.start();
        producer = made;
    }

    private void send(JsonNode command, ObjectNode answer) throws MQClientException {
        Message message = new Message(
                command.get("topic").asText(), command.get("tags").asText(), command.get("keys").asText(),
                bytes(command.get("body")));
        message.setRecordKey(bytes(command.get("key")));
        for (JsonNode property : command.get("properties")) {
            message.putUserProperty(property.get(0).asText(), bytes(property.get(1)));
        }
        if (!command.get("queue_id").isNull()) {
            message.setWishedQueueId(command.get("queue_id").asInt());
        }
        TransactionSendResult result = producer.sendMessageInTransaction(message, null);
        answer.put("transaction_id", result.getTransactionId())
                .put("partition", result.getMessageQueue().queueId())
                .put("offset", result.getQueueOffset())
                .put("state", name(result.getLocalTransactionState()));
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
        return ask("execute", fields(message));
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        return ask(
                "check",
                fields(message)
                        .put("check_times", message.getCheckTimes())
                        .put("partition", message.getQueueId())
                        .put("offset", message.getQueueOffset()));
    }

    private LocalTransactionState ask(String what, ObjectNode message) {
        long number = numbers.incrementAndGet();
        CompletableFuture<String> state = new CompletableFuture<>();
        asked.put(number, state);
        ObjectNode question = JSON.createObjectNode().put("ask", what).put("id", number);
        question.set("message", message);
        write(question);
        return switch (state.join()) {
            case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
            case "unknown" -> LocalTransactionState.UNKNOW;
            default -> throw new IllegalStateException("as the kit wished");
        };
    }

    private static String name(LocalTransactionState state) {
        return switch (state) {
            case COMMIT_MESSAGE -> "commit";
            case ROLLBACK_MESSAGE -> "rollback";
            case UNKNOW -> "unknown";
        };
    }

    private static ObjectNode fields(Message message) {
        ObjectNode fields = JSON.createObjectNode()
                .put("transaction_id", message.getTransactionId())
                .put("topic", message.getTopic())
                .put("body", text(message.getBody()))
                .put("key", text(message.getRecordKey()))
                .put("keys", message.getKeys())
                .put("tags", message.getTags())
                .put("queue_id", message.getWishedQueueId());
        var properties = fields.putArray("properties");
        message.getPropertyBytes().forEach((name, value) -> properties.addArray().add(name).add(text(value)));
        return fields;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private void write(ObjectNode line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }
}
