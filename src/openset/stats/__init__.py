"""The stats of openset."""
