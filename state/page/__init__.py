"""A page of half offsets: its columns, its packed form, its changes in a batch."""
