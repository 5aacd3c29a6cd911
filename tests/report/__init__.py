"""Figures: their data, and that they can be drawn."""
