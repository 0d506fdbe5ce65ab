/* Turns committed halves into their final messages inside librdkafka.
 *
 * The sink does this once for every message of the system. Through confluent-kafka each message
 * becomes Python objects (two for each of its eleven headers) and librdkafka's structures again:
 * 9 us of C code and 4 of Python for a message that librdkafka itself moves in 3. Here its key, its
 * body and its headers stay where librdkafka put them.
 *
 * Only plain halves are done here: committed, for a real topic that is known and takes them. The
 * rest is left to sinks/records/router.py, which makes the same finals; one test runs both.
 *
 * No function of librdkafka is linked: use_librdkafka finds those of the copy that
 * confluent-kafka brings; its wheels leave the header out. The declarations below are from
 * rdkafka.h; its binary interface is kept within version 2.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef int resp_err; /* rd_kafka_resp_err_t */

typedef struct {
    resp_err err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} rd_kafka_message_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset; /* and more, which is not looked at */
} rd_kafka_topic_partition_t;

typedef struct {
    int vtype;
    union {
        rd_kafka_topic_t *rkt;
        int i;
        int32_t i32;
        int64_t i64;
        struct {
            void *ptr;
            size_t size;
        } mem;
        rd_kafka_headers_t *headers;
        char pad[64];
    } u;
} rd_kafka_vu_t;

enum { V_RKT = 2, V_PARTITION, V_VALUE, V_KEY, V_MSGFLAGS = 7, V_TIMESTAMP, V_HEADERS = 10 };
enum { CONSUMER = 1, MSG_F_COPY = 2, QUEUE_FULL = -184, BY_KEY = -1 };
/* What a consumer says in place of a record. */
enum { PARTITION_END = -191, BAD_MESSAGE = -199, BAD_COMPRESSION = -198, NOT_IMPLEMENTED = -170 };

typedef resp_err on_new_function(rd_kafka_t *, const rd_kafka_conf_t *, void *, char *, size_t);

/* What is used of librdkafka: result, name without its prefix, arguments. */
#define LIBRDKAFKA(FUNCTION)                                                                       \
    FUNCTION(resp_err, conf_interceptor_add_on_new,                                                \
             (rd_kafka_conf_t *, const char *, on_new_function *, void *))                         \
    FUNCTION(rd_kafka_conf_t *, conf_new, (void))                                                  \
    FUNCTION(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))       \
    FUNCTION(void, conf_destroy, (rd_kafka_conf_t *))                                              \
    FUNCTION(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t))                          \
    FUNCTION(void, destroy, (rd_kafka_t *))                                                        \
    FUNCTION(resp_err, poll_set_consumer, (rd_kafka_t *))                                          \
    FUNCTION(resp_err, consumer_close, (rd_kafka_t *))                                             \
    FUNCTION(resp_err, assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))            \
    FUNCTION(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int))                   \
    FUNCTION(rd_kafka_topic_partition_t *, topic_partition_list_add,                               \
             (rd_kafka_topic_partition_list_t *, const char *, int32_t))                           \
    FUNCTION(void, topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *))              \
    FUNCTION(resp_err, query_watermark_offsets,                                                    \
             (rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *, int))                     \
    FUNCTION(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                               \
    FUNCTION(void, queue_destroy, (rd_kafka_queue_t *))                                            \
    FUNCTION(ssize_t, consume_batch_queue,                                                         \
             (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                             \
    FUNCTION(void, message_destroy, (rd_kafka_message_t *))                                        \
    FUNCTION(resp_err, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))       \
    FUNCTION(resp_err, message_detach_headers, (rd_kafka_message_t *, rd_kafka_headers_t **))      \
    FUNCTION(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                      \
    FUNCTION(resp_err, header_get,                                                                 \
             (const rd_kafka_headers_t *, size_t, const char *, const void **, size_t *))          \
    FUNCTION(resp_err, header_get_all,                                                             \
             (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))         \
    FUNCTION(resp_err, header_add,                                                                 \
             (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))                 \
    FUNCTION(resp_err, header_remove, (rd_kafka_headers_t *, const char *))                        \
    FUNCTION(void, headers_destroy, (rd_kafka_headers_t *))                                        \
    FUNCTION(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, void *))                  \
    FUNCTION(void, topic_destroy, (rd_kafka_topic_t *))                                            \
    FUNCTION(rd_kafka_error_t *, produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t))         \
    FUNCTION(resp_err, error_code, (const rd_kafka_error_t *))                                     \
    FUNCTION(void, error_destroy, (rd_kafka_error_t *))

#define FIELD(result, name, arguments) result(*name) arguments;
#define NAME(result, name, arguments) "rd_kafka_" #name,
static struct {
    LIBRDKAFKA(FIELD)
} kafka;
static const char *const function_names[] = {LIBRDKAFKA(NAME)};

enum { INTERFACE = 5 }; /* of this file to sinks/native/library.py: raised with every change of it */

int interface_version(void) { return INTERFACE; }

static uint32_t crc32_of_byte[256];

/* To be called before all else, with a library that librdkafka is linked to. Returns 0, or -1 where
 * it lacks a function. */
int use_librdkafka(void *library) {
    void *found[sizeof function_names / sizeof *function_names];
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (!(found[i] = dlsym(library, function_names[i]))) return -1;
    memcpy(&kafka, found, sizeof kafka);
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
        crc32_of_byte[byte] = sum;
    }
    return 0;
}

/* A plugin of librdkafka's (plugin.library.paths), called for each client that is made: nothing
 * else of confluent-kafka's public interface leads to the client behind a Producer or Consumer. */
static _Thread_local rd_kafka_t *newest;

static resp_err on_new(
    rd_kafka_t *client, const rd_kafka_conf_t *conf, void *opaque, char *text, size_t size) {
    (void)conf, (void)opaque, (void)text, (void)size;
    newest = client;
    return 0;
}

resp_err conf_init(rd_kafka_conf_t *conf, void **opaque, char *text, size_t size) {
    (void)opaque, (void)text, (void)size;
    return kafka.conf_interceptor_add_on_new(conf, "checkback", on_new, NULL);
}

rd_kafka_t *newest_client(void) { return newest; }

/* Reading: records of one partition, in order, each looked at as often as it takes. */

enum { READ_AHEAD = 1000 };

typedef struct {
    rd_kafka_t *consumer;
    rd_kafka_queue_t *queue;
    const char *topic;
    int32_t partition; /* -1: of none */
    int64_t gap_max;   /* offsets that are read over rather than sought across */
    rd_kafka_message_t *read[READ_AHEAD];
    ssize_t count, next;
    int64_t position; /* offset from which on nothing was taken yet */
    /* Of the record at `next`, which is to be sent again: */
    rd_kafka_headers_t *edited;
    const struct topic *real;
    int32_t real_partition;
} reader;

/* A consumer of its own: one of confluent-kafka's has callbacks that must be served by Python. */
static rd_kafka_t *consumer_new(const char *const *settings, char *text, size_t size) {
    rd_kafka_conf_t *conf = kafka.conf_new();
    for (; settings[0]; settings += 2)
        if (kafka.conf_set(conf, settings[0], settings[1], text, size))
            return kafka.conf_destroy(conf), NULL;
    rd_kafka_t *made = kafka.new(CONSUMER, conf, text, size);
    if (made)
        kafka.poll_set_consumer(made);
    else
        kafka.conf_destroy(conf);
    return made;
}

/* Settings are names and values in turn, ended by NULL. The topic's name must stay.
 * Returns NULL, and in `text` why. */
reader *reader_new(const char *const *settings, const char *topic, int64_t gap_max, char *text,
                   int64_t size) {
    reader *made = calloc(1, sizeof *made);
    if (!made || !(made->consumer = consumer_new(settings, text, (size_t)size)))
        return free(made), NULL;
    made->queue = kafka.queue_get_consumer(made->consumer);
    made->topic = topic;
    made->partition = -1;
    made->gap_max = gap_max;
    return made;
}

/* To be called when a pass is given up: it may leave a record half seen to. */
void reader_forget(reader *from) {
    for (; from->next < from->count; from->next++) kafka.message_destroy(from->read[from->next]);
    if (from->edited) kafka.headers_destroy(from->edited);
    from->edited = NULL;
    from->count = from->next = 0;
    from->partition = -1;
}

/* To be called when nothing is read for a while: a consumer with partitions goes on asking for what
 * comes next. */
void reader_rest(reader *from) {
    reader_forget(from);
    kafka.assign(from->consumer, NULL);
}

/* Make the record at an offset, or the first after it, the next one. Returns librdkafka's code. */
static resp_err go_to(reader *from, int32_t partition, int64_t offset) {
    int64_t gap = offset - from->position;
    if (partition == from->partition && gap >= 0 && gap <= from->gap_max) return 0;
    reader_forget(from);
    from->partition = partition;
    from->position = offset;
    rd_kafka_topic_partition_list_t *assigned = kafka.topic_partition_list_new(1);
    kafka.topic_partition_list_add(assigned, from->topic, partition)->offset = offset;
    resp_err code = kafka.assign(from->consumer, assigned);
    kafka.topic_partition_list_destroy(assigned);
    return code;
}

/* Whether a partition holds nothing from an offset on: not while that is unknown. */
int reader_is_behind_end(reader *from, int32_t partition, int64_t offset, int timeout_ms) {
    int64_t first, end;
    if (kafka.query_watermark_offsets(
            from->consumer, from->topic, partition, &first, &end, timeout_ms))
        return 0;
    return first == end || offset >= end;
}

void reader_free(reader *from) {
    reader_forget(from);
    kafka.queue_destroy(from->queue);
    kafka.consumer_close(from->consumer);
    kafka.destroy(from->consumer);
    free(from);
}

static rd_kafka_message_t *peek(reader *from, int timeout_ms) {
    if (from->next < from->count) return from->read[from->next];
    from->next = 0;
    /* Asked for more than there is, it waits the timeout out: for the first one alone, then. */
    from->count = kafka.consume_batch_queue(from->queue, 0, from->read, READ_AHEAD);
    if (from->count <= 0)
        from->count = kafka.consume_batch_queue(from->queue, timeout_ms, from->read, 1);
    if (from->count < 0) from->count = 0;
    return from->count ? from->read[0] : NULL;
}

static void take(reader *from) {
    rd_kafka_message_t *message = from->read[from->next++];
    if (!message->err) from->position = message->offset + 1;
    kafka.message_destroy(message);
}

/* Sending: what is known of topics, and which headers a final does not carry. */

typedef struct topic {
    char *name;
    size_t name_len;
    rd_kafka_topic_t *handle; /* NULL: what goes there is left to Python */
    int64_t partitions, batch_bytes_max;
    int needs_key;
    int is_held; /* Python may send a half of this pass there, and so sends all later ones */
} topic;

/* Names of headers. */
typedef struct {
    const char *const *taken_off; /* ended by NULL; at most 64 */
    const char *real_topic, *real_queue_id, *queue_offset, *queue_id, *group, *transaction_id;
} header_names;

/* Upper bounds of what Kafka's message format 2 adds, and of what headers may take unmeasured. */
typedef struct {
    int64_t record_overhead_bytes, header_overhead_bytes, header_room_bytes, headers_max;
} record_sizes;

typedef struct {
    rd_kafka_t *producer;
    const header_names *names;
    record_sizes sizes;
    topic **topics;
    size_t topic_count, last_found;
} sender;

sender *sender_new(rd_kafka_t *producer, const header_names *names, const record_sizes *sizes) {
    sender *made = calloc(1, sizeof *made);
    if (made) *made = (sender){producer, names, *sizes, NULL, 0, 0};
    return made;
}

/* With no partitions: what goes there is left to Python. Returns 0, or -1 without memory. */
int sender_add_topic(sender *to, const char *name, int64_t name_len, int64_t partitions,
                     int64_t batch_bytes_max, int needs_key) {
    topic **grown = realloc(to->topics, (to->topic_count + 1) * sizeof *grown);
    if (grown) to->topics = grown;
    topic *made = calloc(1, sizeof *made);
    char *copy = calloc(1, (size_t)name_len + 1);
    if (!grown || !made || !copy) return free(made), free(copy), -1;
    memcpy(copy, name, (size_t)name_len);
    rd_kafka_topic_t *handle = partitions ? kafka.topic_new(to->producer, copy, NULL) : NULL;
    *made = (topic){copy, (size_t)name_len, handle, partitions, batch_bytes_max, needs_key, 0};
    to->topics[to->topic_count++] = made;
    return 0;
}

void sender_free(sender *to) {
    for (size_t i = 0; i < to->topic_count; i++) {
        if (to->topics[i]->handle) kafka.topic_destroy(to->topics[i]->handle);
        free(to->topics[i]->name);
        free(to->topics[i]);
    }
    free(to->topics);
    free(to);
}

static void release_topics(sender *to) {
    for (size_t i = 0; i < to->topic_count; i++) to->topics[i]->is_held = 0;
}

/* Names of topics cost their sender nothing, and each that is known makes finding others longer.
 * What goes to further ones is left to Python, which finds them by hash. */
enum { TOPICS_MAX = 1000 };

static topic *find_topic(sender *to, const void *name, size_t name_len) {
    for (size_t tried = 0; tried < to->topic_count; tried++) {
        size_t at = (to->last_found + tried) % to->topic_count; /* neighbours mostly share one */
        topic *one = to->topics[at];
        if (one->name_len == name_len && !memcmp(one->name, name, name_len))
            return to->last_found = at, one;
    }
    return NULL;
}

/* What a half's headers say. */
typedef struct {
    const void *real_topic;
    size_t real_topic_len;
    int64_t real_queue_id; /* -1: none, or no number */
    uint64_t taken_off;    /* bit i: taken_off[i] stands among them */
    int64_t kept_bytes;    /* upper bound of what the others take */
    int is_plain;
} facts;

enum { NUMBER_MAX = 20 };

static int64_t number(const char *digits, size_t count, int64_t otherwise) {
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '9') return otherwise;
        if (value <= INT32_MAX) value = value * 10 + (digits[i] - '0'); /* no topic has more */
    }
    return count ? value : otherwise;
}

static int place_of(const char *const *names, const char *name) {
    for (int i = 0; names[i]; i++)
        if (names[i][0] == name[0] && !strcmp(names[i], name)) return i;
    return -1;
}

static facts look(const sender *to, const rd_kafka_headers_t *headers) {
    const header_names *names = to->names;
    facts found = {.real_queue_id = -1, .is_plain = 1};
    const char *name;
    const void *value;
    size_t size, i = 0;
    for (; !kafka.header_get_all(headers, i, &name, &value, &size); i++) {
        size_t len = strlen(name);
        int place = place_of(names->taken_off, name);
        if (place < 0) {
            found.kept_bytes += to->sizes.header_overhead_bytes + (int64_t)(len + size);
            continue;
        }
        found.taken_off |= (uint64_t)1 << place;
        if (!value) continue;
        if (!found.real_topic_len && !strcmp(name, names->real_topic)) {
            found.real_topic = value; /* of several the first that says something */
            found.real_topic_len = size;
        } else if (!strcmp(name, names->real_queue_id)) {
            found.real_queue_id = number(value, size, found.real_queue_id);
        }
    }
    if ((int64_t)i + 2 > to->sizes.headers_max) found.is_plain = 0; /* a final has two more */
    return found;
}

/* By an upper bound: what does not fit here may fit where Python measures it. */
static int fits(const sender *to, const topic *real, const facts *found,
                const rd_kafka_message_t *half) {
    int64_t bytes = (int64_t)(half->len + half->key_len);
    if (bytes <= real->batch_bytes_max - to->sizes.header_room_bytes) return 1;
    bytes += to->sizes.record_overhead_bytes + found->kept_bytes;
    bytes += 2 * (to->sizes.header_overhead_bytes + NUMBER_MAX);
    bytes += (int64_t)(strlen(to->names->queue_offset) + strlen(to->names->queue_id));
    return bytes <= real->batch_bytes_max;
}

/* Of a number that is not negative. Two calls of snprintf were a thirtieth of the sink's time. */
static void add_number(rd_kafka_headers_t *headers, const char *name, int64_t value) {
    char text[NUMBER_MAX], *first = text + sizeof text;
    do *--first = (char)('0' + value % 10);
    while (value /= 10);
    kafka.header_add(headers, name, -1, first, text + sizeof text - first);
}

/* The half's own headers, made those of its final; the half has none any more. */
static rd_kafka_headers_t *edited(const header_names *names, const facts *found,
                                  rd_kafka_message_t *half, int32_t half_partition) {
    rd_kafka_headers_t *headers = NULL;
    if (kafka.message_detach_headers(half, &headers)) return NULL;
    for (int i = 0; names->taken_off[i]; i++)
        if (found->taken_off >> i & 1) kafka.header_remove(headers, names->taken_off[i]);
    add_number(headers, names->queue_offset, half->offset);
    add_number(headers, names->queue_id, half_partition);
    return headers;
}

static resp_err produce(rd_kafka_t *producer, const reader *from) {
    const rd_kafka_message_t *half = from->read[from->next];
    int type;
    const rd_kafka_vu_t parts[] = {
        {V_RKT, {.rkt = from->real->handle}},
        {V_PARTITION, {.i32 = from->real_partition}},
        {V_MSGFLAGS, {.i = MSG_F_COPY}},
        {V_VALUE, {.mem = {half->payload, half->len}}},
        {V_KEY, {.mem = {half->key, half->key_len}}},
        {V_TIMESTAMP, {.i64 = kafka.message_timestamp(half, &type)}},
        {V_HEADERS, {.headers = from->edited}},
    };
    rd_kafka_error_t *error = kafka.produceva(producer, parts, sizeof parts / sizeof *parts);
    if (!error) return 0;
    resp_err code = kafka.error_code(error);
    kafka.error_destroy(error);
    return code;
}

/* Noting whom records speak of, for the ledger. */

enum { NOTED = 3, NOTED_BYTES_MAX = 1024 }; /* as in sinks/ledger/notes.py */

/* One row for each offset; the arrays are as long as the offsets, `ends` longer by one. */
typedef struct {
    const char *header[NOTED];
    uint8_t *is_there[NOTED];
    int32_t *ends[NOTED]; /* of the values in `bytes` */
    uint8_t *has_time;
    int64_t *time_ms;
    char *bytes[NOTED]; /* grown here, freed by notes_free */
    int64_t capacity[NOTED];
    int64_t rows;
} notes;

void notes_free(notes *made) {
    for (int i = 0; i < NOTED; i++) free(made->bytes[i]), made->bytes[i] = NULL;
}

static int note_value(notes *made, int i, const void *value, size_t size) {
    int32_t start = made->ends[i][made->rows];
    int64_t end = start + (int64_t)size;
    if (end > INT32_MAX) return -1;
    if (end > made->capacity[i]) {
        int64_t capacity = 2 * end + 4096;
        char *grown = realloc(made->bytes[i], (size_t)capacity);
        if (!grown) return -1;
        made->bytes[i] = grown;
        made->capacity[i] = capacity;
    }
    if (size) memcpy(made->bytes[i] + start, value, size);
    made->ends[i][made->rows + 1] = (int32_t)end;
    return 0;
}

/* Add the row of a record, or with NULL of one that is gone. Returns -1 without memory. */
static int note(notes *made, const rd_kafka_message_t *record) {
    rd_kafka_headers_t *headers = NULL;
    int type, has_headers = record && !kafka.message_headers(record, &headers);
    for (int i = 0; i < NOTED; i++) {
        const void *value = NULL;
        size_t size = 0;
        made->is_there[i][made->rows] =
            has_headers && !kafka.header_get(headers, 0, made->header[i], &value, &size);
        if (size > NOTED_BYTES_MAX) size = NOTED_BYTES_MAX;
        if (note_value(made, i, value, value ? size : 0)) return -1;
    }
    made->has_time[made->rows] = record != NULL;
    made->time_ms[made->rows] = record ? kafka.message_timestamp(record, &type) : 0;
    made->rows++;
    return 0;
}

/* Identity: the 96 bits that state/formats/identity.py defines; one test compares the two. */

typedef struct {
    int64_t word, rest; /* rest -1: not known */
} identity;

typedef struct {
    uint32_t state[8];
    uint64_t len;
    unsigned char block[64];
} sha256;

static const uint32_t sha256_start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
    s[h] += (rotated(s[e], 6) ^ rotated(s[e], 11) ^ rotated(s[e], 25)) +                           \
            ((s[e] & s[f]) ^ (~s[e] & s[g])) + sha256_constants[i] + w[i];                         \
    s[d] += s[h];                                                                                  \
    s[h] += (rotated(s[a], 2) ^ rotated(s[a], 13) ^ rotated(s[a], 22)) +                           \
            ((s[a] & s[b]) ^ (s[a] & s[c]) ^ (s[b] & s[c]));

static void sha256_block(sha256 *to) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *four = to->block + 4 * i;
        w[i] = (uint32_t)four[0] << 24 | (uint32_t)four[1] << 16 | (uint32_t)four[2] << 8 | four[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(s, to->state, sizeof s);
    for (int i = 0; i < 64; i += 8) {
        /* Eight rounds at once: each word ends where it began, and none is moved. */
        ROUND(0, 1, 2, 3, 4, 5, 6, 7, i)
        ROUND(7, 0, 1, 2, 3, 4, 5, 6, i + 1)
        ROUND(6, 7, 0, 1, 2, 3, 4, 5, i + 2)
        ROUND(5, 6, 7, 0, 1, 2, 3, 4, i + 3)
        ROUND(4, 5, 6, 7, 0, 1, 2, 3, i + 4)
        ROUND(3, 4, 5, 6, 7, 0, 1, 2, i + 5)
        ROUND(2, 3, 4, 5, 6, 7, 0, 1, i + 6)
        ROUND(1, 2, 3, 4, 5, 6, 7, 0, i + 7)
    }
    for (int i = 0; i < 8; i++) to->state[i] += s[i];
}

static void sha256_add(sha256 *to, const void *bytes, size_t count) {
    for (const unsigned char *from = bytes; count;) {
        size_t at = to->len % sizeof to->block, some = sizeof to->block - at;
        if (some > count) some = count;
        memcpy(to->block + at, from, some);
        to->len += some, from += some, count -= some;
        if (at + some == sizeof to->block) sha256_block(to);
    }
}

static void sha256_hex(sha256 *to, char hex[64]) {
    static const unsigned char padding[64] = {0x80};
    unsigned char bits[8];
    for (int i = 0; i < 8; i++) bits[i] = (unsigned char)(to->len * 8 >> (56 - 8 * i));
    sha256_add(to, padding, 64 - (to->len + 8) % 64);
    sha256_add(to, bits, sizeof bits);
    for (int i = 0; i < 64; i++)
        hex[i] = "0123456789abcdef"[to->state[i / 8] >> (28 - i % 8 * 4) & 15];
}

/* The CRC-32 of zlib and of Spark. */
static uint32_t crc32_of(const char *bytes, size_t count) {
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        sum = crc32_of_byte[(sum ^ (unsigned char)bytes[i]) & 255] ^ sum >> 8;
    return ~sum;
}

void identity_of(const char *group, int64_t group_len, const char *transaction_id, int64_t id_len,
                 identity *found) {
    sha256 sum = {.len = 0};
    char digits[NUMBER_MAX + 1], hex[64], *end = digits + sizeof digits, *first = end;
    memcpy(sum.state, sha256_start, sizeof sum.state);
    *--first = ':';
    int64_t rest = group_len;
    do *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    sha256_add(&sum, first, (size_t)(end - first));
    sha256_add(&sum, group, (size_t)group_len);
    sha256_add(&sum, transaction_id, (size_t)id_len);
    sha256_hex(&sum, hex);
    uint64_t word = (uint64_t)crc32_of(group, (size_t)group_len) << 48;
    word |= (uint64_t)crc32_of(hex, 21) << 16 | (crc32_of(hex + 42, 21) & 0xffff);
    *found = (identity){(int64_t)word, crc32_of(hex + 21, 21)};
}

/* Whether a half is the one that was decided, not another one that its offset leads to by now. */
static int is_decided(const header_names *names, const rd_kafka_headers_t *headers,
                      const identity *decided) {
    const void *group = NULL, *transaction_id = NULL;
    size_t group_len = 0, id_len = 0;
    identity found;
    if (decided->rest < 0) return 1;
    if (kafka.header_get(headers, 0, names->group, &group, &group_len) ||
        kafka.header_get(headers, 0, names->transaction_id, &transaction_id, &id_len))
        return 0;
    identity_of(group, (int64_t)group_len, transaction_id, (int64_t)id_len, &found);
    return found.word == decided->word && found.rest == decided->rest;
}

/* Forwarding. */

enum { DONE, SILENT, FULL, TOPIC_UNKNOWN, READING_FAILED, SENDING_FAILED, NO_MEMORY };

/* Where forwarding stands, and what it stopped for. */
typedef struct {
    int64_t at;       /* how many offsets are seen to */
    int32_t code;     /* librdkafka's, where reading or sending failed */
    int32_t text_len; /* of a topic's name, or of what reading failed with */
    char text[512];
} progress;

static int stop(progress *state, int why, resp_err code, const void *text, size_t text_len) {
    state->code = code;
    state->text_len = (int32_t)(text_len < sizeof state->text ? text_len : sizeof state->text);
    if (state->text_len) memcpy(state->text, text, (size_t)state->text_len);
    return why;
}

/* Make the half at the reader's head ready to be sent, if it is plain and the one decided. */
static int prepare(reader *from, sender *to, int32_t partition, const identity *decided,
                   progress *state) {
    rd_kafka_message_t *half = from->read[from->next];
    rd_kafka_headers_t *headers = NULL;
    if (kafka.message_headers(half, &headers)) return DONE; /* it has none */
    facts found = look(to, headers);
    /* Of these and of those for another topic Python refuses all, or sends all. */
    if (!found.real_topic_len || found.real_topic_len > sizeof state->text) return DONE;
    if (!is_decided(to->names, headers, decided)) return DONE;
    topic *real = find_topic(to, found.real_topic, found.real_topic_len);
    if (!real && to->topic_count >= TOPICS_MAX) return DONE;
    if (!real) return stop(state, TOPIC_UNKNOWN, 0, found.real_topic, found.real_topic_len);
    if (!real->handle || (real->needs_key && !half->key)) return DONE;
    /* Python may send this one, but later: what follows it on its topic must not go before it. */
    if (!found.is_plain || !fits(to, real, &found, half)) real->is_held = 1;
    if (real->is_held) return DONE;
    int64_t wished = found.real_queue_id;
    from->real = real;
    from->real_partition = wished < real->partitions ? (int32_t)wished : BY_KEY;
    from->edited = edited(to->names, &found, half, partition);
    return DONE;
}

/* Send the final of the half at the reader's head; *left becomes 0, unless it is not plain. */
static int forward_one(reader *from, sender *to, int32_t partition, const identity *decided,
                       uint8_t *left, progress *state) {
    if (!from->edited) {
        int why = prepare(from, to, partition, decided, state);
        if (why != DONE || !from->edited) return why;
    }
    resp_err code = produce(to->producer, from);
    if (code == QUEUE_FULL) return FULL;
    if (code) return stop(state, SENDING_FAILED, code, from->real->name, from->real->name_len);
    from->edited = NULL; /* they are librdkafka's now */
    *left = 0;
    return DONE;
}

static int is_unreadable(resp_err code) {
    return code == BAD_MESSAGE || code == BAD_COMPRESSION || code == NOT_IMPLEMENTED;
}

/* See to what a consumer was given in place of a record. *is_missing becomes 1 where the wanted record
 * is gone or can't be read, which is left to Python. */
static int pass_event(reader *from, int64_t wanted, int *is_missing, progress *state) {
    rd_kafka_message_t *event = from->read[from->next];
    if (event->err == PARTITION_END) {
        *is_missing = event->offset > wanted;
        if (!*is_missing) take(from);
        return DONE;
    }
    if (is_unreadable(event->err)) {
        /* It may be one before the wanted record, which then is asked for by itself. */
        *is_missing = from->position == wanted;
        reader_forget(from);
        return DONE;
    }
    stop(state, READING_FAILED, event->err, event->payload, event->len);
    take(from);
    return READING_FAILED;
}

/* See to the records at `offsets`, which ascend. Where left[i] is 1, send the final of that half, and
 * make it 0, unless it is gone, not plain, another one than decided[i] says, or behind one for its
 * topic that is not plain. Where there are notes, note every record. Returns why it stopped; called
 * again with the same, it goes on. */
int forward(reader *from, sender *to, notes *noted, int32_t partition, const int64_t *offsets,
            const identity *decided, uint8_t *left, int64_t count, int timeout_ms,
            progress *state) {
    if (to && !state->at) release_topics(to);
    while (state->at < count) {
        int64_t wanted = offsets[state->at];
        resp_err code = go_to(from, partition, wanted);
        if (code) return stop(state, READING_FAILED, code, NULL, 0);
        rd_kafka_message_t *record = peek(from, timeout_ms);
        if (!record) return SILENT;
        if (record->err) {
            int is_missing = 0, why = pass_event(from, wanted, &is_missing, state);
            if (why != DONE) return why;
            if (is_missing && noted && noted->rows == state->at && note(noted, NULL)) return NO_MEMORY;
            state->at += is_missing;
            continue;
        }
        int is_found = record->offset == wanted;
        if (record->offset >= wanted) {
            /* Not again, where sending has to be tried again. */
            if (noted && noted->rows == state->at && note(noted, is_found ? record : NULL))
                return NO_MEMORY;
            if (is_found && left[state->at]) {
                int64_t at = state->at;
                int why = forward_one(from, to, partition, &decided[at], &left[at], state);
                if (why != DONE) return why;
            }
            state->at++;
        }
        if (record->offset <= wanted) take(from);
    }
    return DONE;
}
