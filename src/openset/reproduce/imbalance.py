"""The class-imbalance paper: Komorniczak and Ksieniewicz, 2024."""

from functools import partial

from openset.reproduce import _imbalance_study, figures
from openset.reproduce._imbalance_study import SMALL
from openset.reproduce._item import Item

_item = partial(Item, paper="class imbalance")

ITEMS = (
    _item(
        name="class-imbalance-fig1",
        number="Fig. 1",
        what="Known and unknown test samples over all pairs of class counts",
        needs="nothing",
        time="seconds",
        make=figures.sample_counts,
    ),
    _item(
        name="class-imbalance-fig2",
        number="Fig. 2",
        what="Metrics of random decisions under imbalance",
        needs="nothing",
        time="seconds",
        make=figures.random_decisions,
    ),
    _item(
        name="class-imbalance-fig3",
        number="Figs. 3, 4",
        what="The four regions of the worked confusion matrix, and their scores",
        needs="nothing",
        time="seconds",
        make=figures.four_scores,
    ),
    _item(
        name="class-imbalance-table1",
        number="Table 1, Fig. 6",
        what="Four methods, four scores, five openness values; learning curves",
        needs="CIFAR-10, SVHN; extra torch; a GPU",
        time="20 minutes on an H200 with nine processes",
        make=partial(_imbalance_study.table1, "class-imbalance-table1"),
    ),
    _item(
        name=SMALL,
        number="Table 1, Fig. 6, small",
        what="The same study with one draw, few images and epochs",
        needs="CIFAR-10, SVHN; extra torch",
        time="minutes on two cores",
        make=partial(_imbalance_study.table1, SMALL),
    ),
)
