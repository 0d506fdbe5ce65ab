"""The checkpoint: whose it is, which rules were in force when, how far it has come."""
