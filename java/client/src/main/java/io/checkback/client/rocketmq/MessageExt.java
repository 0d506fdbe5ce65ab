package io.checkback.client.rocketmq;

import io.checkback.client.CheckRequest;

/** A half message that came back in a check. */
public class MessageExt extends Message {
    private final CheckRequest request;

    MessageExt(CheckRequest request) {
        super(request.topic(), request.tags(), request.keys(), request.value());
        this.request = request;
        setRecordKey(request.key());
        setWishedQueueId(request.queueId());
        setTransactionId(request.transactionId());
        request.headers().forEach(header -> putUserProperty(header.key(), header.value()));
    }

    /** Returns the unique id of the message, which is its transaction id. */
    public String getMsgId() {
        return request.transactionId();
    }

    /** Returns the group that is asked. */
    public String getProducerGroup() {
        return request.group();
    }

    /** Returns the partition of the half topic that has the half. */
    public int getQueueId() {
        return request.halfPartition();
    }

    /** Returns the half's offset there. */
    public long getQueueOffset() {
        return request.halfOffset();
    }

    /** Returns the number of this check of the half, from 1. */
    public int getCheckTimes() {
        return request.checkTimes();
    }

    /** Returns when the request was written, milliseconds since 1970, by the brokers' clock. */
    public long getStoreTimestamp() {
        return request.requestedAtMs();
    }
}
