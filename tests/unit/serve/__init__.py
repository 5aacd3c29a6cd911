"""Tests of openset.serve."""
