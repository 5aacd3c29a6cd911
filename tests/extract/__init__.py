"""Tests of openset.extract."""
