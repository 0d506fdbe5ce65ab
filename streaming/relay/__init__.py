"""Who takes the ops: handed to relays and taken back at a start, read in each batch."""
