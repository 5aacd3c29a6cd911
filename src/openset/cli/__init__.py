"""The cli of openset."""
