"""What the job reports; decides nothing."""
