"""Tests of openset."""
