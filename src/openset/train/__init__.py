"""What needs a network at hand: taking its outputs. Needs the extra `torch`."""

from openset.train.extract import extract

__all__ = ["extract"]
