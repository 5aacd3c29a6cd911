"""Frozen outputs: a changed one means changed results."""
