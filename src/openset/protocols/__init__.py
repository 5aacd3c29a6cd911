"""The protocols of openset."""
