"""Tests of openset.integrations."""
