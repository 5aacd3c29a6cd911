"""Tests of openset.detectors."""
