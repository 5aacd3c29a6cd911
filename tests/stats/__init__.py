"""Tests of `openset.stats`."""
