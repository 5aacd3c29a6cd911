"""Tests of choosing a detector, and of made-up unknowns."""
