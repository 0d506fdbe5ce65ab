/* Turns committed halves into their final messages inside librdkafka.
 *
 * The sink does this once for every message of the system. Through confluent-kafka each message
 * becomes Python objects (two for each of its eleven headers) and librdkafka's structures again:
 * 9 us of C code and 4 of Python for a message that librdkafka itself moves in 3. Here its key, its
 * body and its headers stay where librdkafka put them.
 *
 * Only what is plain is done here: a committed half whose real topic is known and takes it. All the
 * rest is left to sinks/routing.py, and all that is done is done as there; one test runs both.
 *
 * No function of librdkafka is linked: sinks/native.py hands in those of the copy that
 * confluent-kafka brings, whose header its wheels leave out. The declarations below are from
 * rdkafka.h, whose binary interface is kept within version 2.
 */
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
static const char *const function_names[] = {LIBRDKAFKA(NAME) NULL};

/* The names of the functions that use_librdkafka wants, in its order; NULL ends them. */
const char *const *librdkafka_functions(void) { return function_names; }

enum { INTERFACE = 1 }; /* of this file to sinks/native.py: raised with every change of it */

int interface_version(void) { return INTERFACE; }

void use_librdkafka(void *const *functions) { memcpy(&kafka, functions, sizeof kafka); }

/* A plugin of librdkafka's (plugin.library.paths), to be told of each client that is made: nothing
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
    /* Of the record at `next`, whose sending is to be tried again: */
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

/* Make the record at an offset, or the first behind it, the next one. Returns librdkafka's code. */
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
} topic;

/* Names of headers. */
typedef struct {
    const char *const *taken_off; /* ended by NULL; at most 64 */
    const char *real_topic, *real_queue_id, *queue_offset, *queue_id;
} header_names;

typedef struct {
    rd_kafka_t *producer;
    const header_names *names;
    int64_t header_room_bytes;
    topic **topics;
    size_t topic_count, last_found;
} sender;

sender *sender_new(rd_kafka_t *producer, const header_names *names, int64_t header_room_bytes) {
    sender *made = calloc(1, sizeof *made);
    if (made) *made = (sender){producer, names, header_room_bytes, NULL, 0, 0};
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
    *made = (topic){copy, (size_t)name_len, handle, partitions, batch_bytes_max, needs_key};
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

static const topic *find_topic(sender *to, const void *name, size_t name_len) {
    for (size_t tried = 0; tried < to->topic_count; tried++) {
        size_t at = (to->last_found + tried) % to->topic_count; /* neighbours mostly share one */
        const topic *one = to->topics[at];
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
} facts;

/* Upper bounds of what Kafka's message format 2 adds, as in sinks/routing.py. */
enum { HEADER_OVERHEAD = 10, RECORD_OVERHEAD = 61 + 21, NUMBER_MAX = 20 };

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

static facts look(const header_names *names, const rd_kafka_headers_t *headers) {
    facts found = {.real_queue_id = -1};
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; !kafka.header_get_all(headers, i, &name, &value, &size); i++) {
        int place = place_of(names->taken_off, name);
        if (place < 0) {
            found.kept_bytes += HEADER_OVERHEAD + (int64_t)(strlen(name) + size);
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
    return found;
}

static int takes(const sender *to, const topic *real, const facts *found,
                 const rd_kafka_message_t *half) {
    if (!real->handle || (real->needs_key && !half->key)) return 0;
    int64_t bytes = (int64_t)(half->len + half->key_len);
    if (bytes <= real->batch_bytes_max - to->header_room_bytes) return 1;
    bytes += RECORD_OVERHEAD + found->kept_bytes + 2 * (HEADER_OVERHEAD + NUMBER_MAX);
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

enum { NOTED = 3 };

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
        if (note_value(made, i, value, value ? size : 0)) return -1;
    }
    made->has_time[made->rows] = record != NULL;
    made->time_ms[made->rows] = record ? kafka.message_timestamp(record, &type) : 0;
    made->rows++;
    return 0;
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

/* Make the half at the reader's head ready to be sent, if it is plain. */
static int prepare(reader *from, sender *to, int32_t partition, progress *state) {
    rd_kafka_message_t *half = from->read[from->next];
    rd_kafka_headers_t *headers = NULL;
    if (kafka.message_headers(half, &headers)) return DONE; /* it has none */
    facts found = look(to->names, headers);
    if (found.real_topic_len > sizeof state->text) return DONE;
    const topic *real = find_topic(to, found.real_topic, found.real_topic_len);
    if (!real) return stop(state, TOPIC_UNKNOWN, 0, found.real_topic, found.real_topic_len);
    if (!takes(to, real, &found, half)) return DONE;
    int64_t wished = found.real_queue_id;
    from->real = real;
    from->real_partition = wished < real->partitions ? (int32_t)wished : BY_KEY;
    from->edited = edited(to->names, &found, half, partition);
    return DONE;
}

/* Send the final of the half at the reader's head; *left becomes 0, unless it is not plain. */
static int forward_one(reader *from, sender *to, int32_t partition, uint8_t *left,
                       progress *state) {
    if (!from->edited) {
        int why = prepare(from, to, partition, state);
        if (why != DONE || !from->edited) return why;
    }
    resp_err code = produce(to->producer, from);
    if (code == QUEUE_FULL) return FULL;
    if (code) return stop(state, SENDING_FAILED, code, from->real->name, from->real->name_len);
    from->edited = NULL; /* they are librdkafka's now */
    *left = 0;
    return DONE;
}

/* See to the records at `offsets`, which ascend. Where left[i] is 1, send the final of that half, and
 * make it 0, unless it is gone or not plain. Where there are notes, note every record. Returns why it
 * stopped; called again with the same, it goes on. */
int forward(reader *from, sender *to, notes *noted, int32_t partition, const int64_t *offsets,
            uint8_t *left, int64_t count, int timeout_ms, progress *state) {
    while (state->at < count) {
        int64_t wanted = offsets[state->at];
        resp_err code = go_to(from, partition, wanted);
        if (code) return stop(state, READING_FAILED, code, NULL, 0);
        rd_kafka_message_t *record = peek(from, timeout_ms);
        if (!record) return SILENT;
        if (record->err) {
            stop(state, READING_FAILED, record->err, record->payload, record->len);
            return take(from), READING_FAILED;
        }
        int is_found = record->offset == wanted;
        if (record->offset >= wanted) {
            /* Not again, where sending has to be tried again. */
            if (noted && noted->rows == state->at && note(noted, is_found ? record : NULL))
                return NO_MEMORY;
            if (is_found && left[state->at]) {
                int why = forward_one(from, to, partition, &left[state->at], state);
                if (why != DONE) return why;
            }
            state->at++;
        }
        if (record->offset <= wanted) take(from);
    }
    return DONE;
}
