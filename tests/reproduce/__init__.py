"""Tests of openset.reproduce."""
