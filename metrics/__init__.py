"""One table of metrics and the files made from it, health, and log lines."""
