"""Tests of openset.scores."""
