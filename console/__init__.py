"""The console: what operators see and do, as web pages, in a terminal, and as one static file.

It needs no Spark. It reads the ledger by SQL, records from Kafka, and live figures from the
pipeline's metrics endpoint; what it does to transactions, ``operations`` does.
"""
