"""The sink's own process, and a task's way to it; knows no records."""
