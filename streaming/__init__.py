"""The pipeline: sources, decoding, the query, the job."""
