"""From half messages to finals, checks and refused records. Pure."""
