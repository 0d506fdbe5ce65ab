"""The Java classes that Spark's generated code calls; no other Python here."""
