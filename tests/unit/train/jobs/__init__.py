"""Tests of openset.train.jobs."""
