package io.checkback.client;

/** A topic does not exist; nothing was sent, and the local transaction did not run. */
public class TopicNotFoundException extends BrokerException {
    private static final long serialVersionUID = 1L;

    /** @param topic the topic's name */
    public TopicNotFoundException(String topic) {
        super("The topic " + topic + " does not exist. Create it, and check its name and the topic prefix.", null);
    }
}
