"""Tests of openset.train.loop."""
