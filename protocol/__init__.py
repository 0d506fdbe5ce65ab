"""What the client and the pipeline agree on: names, record formats, errors, configuration.

Pure: no broker, no engine, no clock. Everything here can be imported by an application process
that has neither Spark nor numpy.
"""
