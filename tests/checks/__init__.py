"""Tests of `openset.checks`."""
