"""`Rejector`: a fitted detector with its threshold, ready to be used and saved."""

from openset.rejector._artefact import check_destination
from openset.rejector._rejector import Decisions, Explanation, Rejector, need_rejector

__all__ = [
    "Decisions",
    "Explanation",
    "Rejector",
    "check_destination",
    "need_rejector",
]
