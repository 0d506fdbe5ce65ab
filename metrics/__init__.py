"""How the pipeline is watched: one table of metrics, what is made of it, health and log lines."""
