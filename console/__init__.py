"""The console: what operators see and do, as web pages.

It needs no Spark. It reads the checkpoint, records from Kafka, and the running job's metrics; what
it does to transactions, ``operations`` does.
"""
