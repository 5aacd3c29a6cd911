"""The OpenAUC paper: Wang et al., NeurIPS 2022."""

from openset.reproduce import _properties
from openset.reproduce._item import Item

_PAPER = "OpenAUC"

ITEMS = (
    Item(
        name="openauc-table1",
        paper=_PAPER,
        number="Table 1",
        what="Which metrics have properties P1 to P4, by constructions that are run",
        needs="nothing",
        time="seconds",
        make=_properties.table1,
    ),
)
