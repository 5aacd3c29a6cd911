"""Named benchmarks: definitions, and scores of your network's outputs on them.

A definition says which classes are known, which data sets are unknown and in which
role, and which metrics are reported with known or unknown as the positive class.
Outputs of a network are files in one folder, in the form that :meth:`Benchmark.files`
lists.
"""

from openset.bench.named._definition import (
    Benchmark,
    Column,
    Group,
    Published,
    load,
    names,
)
from openset.bench.named._evaluate import Row, Table, evaluate
from openset.bench.named._image_lists import Listed
from openset.bench.named._pack import folder_of, pack

__all__ = [
    "Benchmark",
    "Column",
    "Group",
    "Listed",
    "Published",
    "Row",
    "Table",
    "evaluate",
    "folder_of",
    "load",
    "names",
    "pack",
]
