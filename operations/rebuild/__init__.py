"""Rebuilds a lost or damaged checkpoint from the topics, or mends it by cutting its end off."""
