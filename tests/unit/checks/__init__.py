"""The evaluation checks, one file each."""
