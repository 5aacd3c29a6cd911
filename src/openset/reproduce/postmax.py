"""The PostMax paper: Cruz et al., ECCV 2024.

Every item reads saved outputs of networks (:mod:`openset.reproduce._operational`), so
that the paper's own networks can be put in. Thresholds are chosen on validation and
surrogate samples only, with equal weight of known and unknown samples: in the paper
there are equally many. On the test samples, open-set accuracy weighs them by their
counts, as in the paper.
"""

from collections.abc import Callable

from openset.reproduce import _scale
from openset.reproduce._item import Content, Item, Settings
from openset.reproduce._postmax_figures import figure1, figure2
from openset.reproduce._postmax_measures import Value
from openset.reproduce._postmax_significance import tests
from openset.reproduce._postmax_tables import (
    more_metrics,
    table1,
    table2,
    table3,
    table4,
)
from openset.reproduce._postmax_variations import alpha, norm, surrogate

__all__ = [
    "ITEMS",
    "Value",
    "alpha",
    "figure1",
    "figure2",
    "more_metrics",
    "norm",
    "surrogate",
    "table1",
    "table2",
    "table3",
    "table4",
    "tests",
]

_PAPER = "PostMax"


def _item(
    name: str, number: str, what: str, make: Callable[[Settings], Content]
) -> Item:
    return Item(
        name=f"postmax-{name}",
        paper=_PAPER,
        number=number,
        what=what,
        needs="nothing (digits), or --outputs DIR",
        time="seconds",
        make=make,
    )


ITEMS = (
    _item("table1", "Table 1", "OOSA of five methods on five test splits", table1),
    _item("table2", "Table 2", "AUROC and FPR95 on five test splits", table2),
    _item("table3", "Table 3", "OOSA, sets for threshold and test exchanged", table3),
    _item("table4", "Table 4", "AUROC and FPR95 on the sets of Table 3", table4),
    _item("tests", "Section 4.2", "Paired t-tests with Bonferroni's correction", tests),
    _item("fig1", "Figure 1", "OSA over URR: operational threshold, oracle", figure1),
    _item("fig2", "Figure 2", "Feature magnitudes of known and unknown", figure2),
    _item("metrics", "Supplement", "AUOSCR and OpenAUC on five splits", more_metrics),
    _item("alpha", "Supplement, α", "OOSA over α", alpha),
    _item("norm", "Supplement, norm", "PostMax with L2, L1 and no norm", norm),
    _item("surrogate", "Section 4.3", "OOSA by kind of surrogate", surrogate),
    Item(
        name="postmax-scale",
        paper=_PAPER,
        number="Section 4.1, size",
        what="Time and memory for 1.28 million x 1000 logits, synthetic",
        needs="12 GB of disk, for a while",
        time="minutes on a CPU",
        make=_scale.scale,
    ),
)
