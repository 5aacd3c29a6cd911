"""Tests of openset.selection."""
