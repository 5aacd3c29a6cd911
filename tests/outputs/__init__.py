"""Tests of openset.outputs."""
