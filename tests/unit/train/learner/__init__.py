"""Tests of openset.train.learner."""
