"""The Spark session, its JVM, workers and jars; knows no halves."""
