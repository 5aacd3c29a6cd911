"""Tables and figures of three papers, recomputed next to the published numbers.

``openset reproduce --list`` names the items, ``openset reproduce NAME`` runs one. Each
paper has a module of its own with its items:

* :mod:`openset.reproduce.openauc`: Wang et al., NeurIPS 2022;
* :mod:`openset.reproduce.imbalance`: Komorniczak and Ksieniewicz, 2024;
* :mod:`openset.reproduce.postmax`: Cruz et al., ECCV 2024.

Needs the extras `bench` (studies) and `report` (figures); items that train networks
need `torch`.
"""

from openset.reproduce import consistency
from openset.reproduce._imagenet import imagenet_parts
from openset.reproduce._item import Content, Item, Settings
from openset.reproduce._published import Published, published
from openset.reproduce._registry import get, items
from openset.reproduce._run import Reproduction, load, run
from openset.reproduce._study import StudyRun, run_study
from openset.reproduce._table import Measured, Table

__all__ = [
    "Content",
    "Item",
    "Measured",
    "Published",
    "Reproduction",
    "Settings",
    "StudyRun",
    "Table",
    "consistency",
    "get",
    "imagenet_parts",
    "items",
    "load",
    "published",
    "run",
    "run_study",
]
