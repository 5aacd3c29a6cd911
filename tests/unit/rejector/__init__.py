"""Tests of the rejector and its artefact."""
