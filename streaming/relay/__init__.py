"""The job's side of relays: hands ops over at a start or takes them back, and reads marks."""
