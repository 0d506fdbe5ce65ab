package io.checkback.conformance;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import io.checkback.client.CheckbackConfig;
import io.checkback.client.CheckbackProducer;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.Transaction;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The client under load, for `python -m bench client`: prints what it measured as one JSON object. */
public final class SendLoad {
    private SendLoad() {}

    /**
     * Sends transactions that commit at once from several threads.
     *
     * @param arguments brokers, topic prefix, real topic, threads, transactions of each thread, bytes of a body
     */
    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[3]);
        int transactions = Integer.parseInt(arguments[4]);
        byte[] body = new byte[Integer.parseInt(arguments[5])];
        Arrays.fill(body, (byte) 'x');
        Map<String, Object> settings = Map.of(
                CheckbackConfig.BOOTSTRAP_SERVERS, arguments[0],
                CheckbackConfig.TOPIC_PREFIX, arguments[1],
                CheckbackConfig.GROUP, "checkback-bench");
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try (var producer = new CheckbackProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.onCheck(check -> LocalTransactionState.COMMIT_MESSAGE);
            producer.start();
            Runnable send = () -> producer.send(new ProducerRecord<>(arguments[2], body), Transaction::commit);
            run(pool, threads, transactions, send); // the JVM compiles what runs often
            OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            long began = System.nanoTime();
            long processor = system.getProcessCpuTime();
            long[] latencies = run(pool, threads, transactions, send);
            double seconds = (System.nanoTime() - began) / 1e9;
            double processorUs = (system.getProcessCpuTime() - processor) / 1e3;
            System.out.println(new ObjectMapper().writeValueAsString(
                    measurement(threads, latencies, seconds, processorUs)));
        } finally {
            pool.shutdown();
        }
    }

    private static long[] run(ExecutorService pool, int threads, int transactions, Runnable send) throws Exception {
        CyclicBarrier together = new CyclicBarrier(threads);
        List<Future<long[]>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            parts.add(pool.submit(() -> {
                together.await();
                long[] nanos = new long[transactions];
                for (int at = 0; at < transactions; at++) {
                    long began = System.nanoTime();
                    send.run();
                    nanos[at] = System.nanoTime() - began;
                }
                return nanos;
            }));
        }
        long[] all = new long[threads * transactions];
        for (int part = 0; part < threads; part++) {
            System.arraycopy(parts.get(part).get(), 0, all, part * transactions, transactions);
        }
        Arrays.sort(all);
        return all;
    }

    private static Map<String, Object> measurement(
            int threads, long[] latencies, double seconds, double processorUs) {
        int count = latencies.length;
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("kind", "java");
        found.put("threads", threads);
        found.put("transactions", count);
        found.put("transactions_per_s", rounded(count / seconds, 10));
        found.put("processor_us", rounded(processorUs / count, 10));
        found.put("latency_p50_ms", rounded(latencies[count / 2] / 1e6, 1_000));
        found.put("latency_p99_ms", rounded(latencies[count * 99 / 100] / 1e6, 100));
        found.put("latency_max_ms", rounded(latencies[count - 1] / 1e6, 100));
        return found;
    }

    private static double rounded(double value, int parts) {
        return Math.round(value * parts) / (double) parts;
    }
}
