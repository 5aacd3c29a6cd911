"""Tests of openset.datasets."""
