"""`Rejector`: a fitted detector with its threshold, ready to be used and saved."""

from openset.rejector._rejector import Explanation, Rejector

__all__ = ["Explanation", "Rejector"]
