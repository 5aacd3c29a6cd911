"""Tests of openset.train.networks."""
