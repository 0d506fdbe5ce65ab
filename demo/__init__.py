"""The demo: an order service, its fates and its audit."""
