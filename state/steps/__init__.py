"""The steps of a page's batch: halves, ops, checks, forgetting."""
