"""Tests of openset.metrics."""
