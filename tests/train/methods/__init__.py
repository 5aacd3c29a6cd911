"""Tests of openset.train.methods."""
