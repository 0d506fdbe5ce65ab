"""The pipeline: sources, the query, the job and the command line."""
