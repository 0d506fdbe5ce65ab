"""What is pending in a checkpoint's state."""
