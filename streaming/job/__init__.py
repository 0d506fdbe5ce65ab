"""One run of the job: its order and its end."""
