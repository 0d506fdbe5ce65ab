"""Transactional producers with the marker inside; they know no halves."""
