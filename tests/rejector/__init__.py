"""Tests of openset.rejector."""
