"""What to train, described before it starts, and where to train it."""
