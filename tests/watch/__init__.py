"""Tests of `openset.watch`."""
