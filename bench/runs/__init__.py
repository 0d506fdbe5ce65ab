"""One run of a benchmark: its topics, its records, its processes, and samples of them."""
