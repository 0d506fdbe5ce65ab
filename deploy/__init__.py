"""What Checkback runs on: jars, Java, an embedded broker, topics."""
