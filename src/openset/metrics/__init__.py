"""The metrics of openset."""
