"""Tests of openset.train."""
