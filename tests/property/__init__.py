"""Laws, on random data."""
