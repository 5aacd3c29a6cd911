"""Packages from outside, as their authors would write, install and use them."""
