"""Where rules of access come from, and from when they hold."""
