package io.checkback.client.internal;

import io.checkback.client.CheckbackConfig;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.utils.Time;

/**
 * What a producer counts. Kafka's own reporters ({@code metric.reporters}, JMX by default) get each count
 * as a metric of the group {@code checkback-client-metrics}.
 */
public final class ClientMetrics implements AutoCloseable {
    private static final String METRIC_GROUP = "checkback-client-metrics";

    /** What is counted. */
    public enum Event {
        SENT("half messages that are stored"),
        SEND_RETRIED("halves that were tried again under another transaction id"),
        SEND_FAILED("halves that are certainly not stored"),
        SEND_IN_DOUBT("halves that may be stored"),
        COMMITTED("ops that say commit"),
        ROLLED_BACK("ops that say rollback"),
        UNKNOWN("ops that say unknown"),
        OP_FAILED("ops that were not stored; checks ask again"),
        LISTENER_FAILED("callbacks of the application that threw"),
        CHECK_RECEIVED("check requests"),
        CHECK_ANSWERED("check requests that were answered"),
        CHECK_SKIPPED("check requests that were too old"),
        CHECK_UNREADABLE("check requests that say too little"),
        DOUBT_SETTLED("checks of halves in doubt, which were answered with rollback"),
        DELAY_DROPPED("messages with a delay, which no transaction can have");

        private final String meaning;

        Event(String meaning) {
            this.meaning = meaning;
        }
    }

    private final Map<Event, LongAdder> counts = new EnumMap<>(Event.class);
    private final CheckbackConfig config;
    private final String clientId;
    private Metrics metrics;

    public ClientMetrics(CheckbackConfig config, String clientId) {
        this.config = config;
        this.clientId = clientId;
        for (Event event : Event.values()) {
            counts.put(event, new LongAdder());
        }
    }

    /** Hands the counts to the reporters, until {@link #close}. */
    public void report() {
        // Reporters are configured as those of a Kafka producer.
        Map<String, Object> settings = KafkaClients.own(config, ProducerConfig.configNames());
        settings.put("bootstrap.servers", config.bootstrapServers());
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        List<MetricsReporter> reporters =
                CommonClientConfigs.metricsReporters(clientId, new ProducerConfig(settings));
        metrics = new Metrics(
                new MetricConfig(), reporters, Time.SYSTEM, new KafkaMetricsContext("checkback.client"));
        Map<String, String> tags = Map.of("client-id", clientId, "group", config.group());
        counts.forEach((event, count) -> {
            String name = event.name().toLowerCase(java.util.Locale.ROOT).replace('_', '-') + "-total";
            Gauge<Double> gauge = (unused, nowMs) -> count.doubleValue();
            metrics.addMetric(metrics.metricName(name, METRIC_GROUP, event.meaning, tags), gauge);
        });
    }

    public void add(Event event) {
        counts.get(event).increment();
    }

    /** Returns how often something has happened since the producer was made. */
    public long count(Event event) {
        return counts.get(event).sum();
    }

    @Override
    public void close() {
        if (metrics != null) {
            metrics.close();
            metrics = null;
        }
    }
}
