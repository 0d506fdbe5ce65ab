"""Reading and appending records of topics."""
