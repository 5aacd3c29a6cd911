"""Tests of openset.train.augment."""
