"""`Rejector`: a fitted detector with its threshold, ready to be used and saved."""

from openset.rejector._artefact import copy_rejector
from openset.rejector._decisions import Decisions, Explanation
from openset.rejector._invalid import Invalid as Invalid
from openset.rejector._places import check_destination, manifest_of
from openset.rejector._rejector import Rejector, need_rejector
from openset.rejector._sets import SetRule

__all__ = [
    "Decisions",
    "Explanation",
    "Rejector",
    "SetRule",
    "check_destination",
    "copy_rejector",
    "manifest_of",
    "need_rejector",
]
