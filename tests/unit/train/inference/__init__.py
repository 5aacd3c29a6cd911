"""Tests of openset.train.inference."""
