"""Tests of openset.protocols."""
