import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints what each share group is given of a topic, until a body says "end". */
public class ShareReader {
    public static void main(String[] arguments) {
        for (var at = 2; at < arguments.length; at++) {
            System.out.println(arguments[at]);
            read(arguments[0], arguments[1], arguments[at]);
        }
    }

    private static void read(String servers, String topic, String group) {
        var properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", group);
        var text = StringDeserializer.class.getName();
        properties.put("key.deserializer", text);
        properties.put("value.deserializer", text);
        var until = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        try (var consumer = new KafkaShareConsumer<String, String>(properties)) {
            consumer.subscribe(List.of(topic));
            while (System.nanoTime() < until) {
                for (var message : consumer.poll(Duration.ofMillis(500))) {
                    System.out.println(message.value());
                    if (message.value().equals("end")) {
                        return;
                    }
                }
            }
        }
    }
}
