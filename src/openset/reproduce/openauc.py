"""The OpenAUC paper: Wang et al., NeurIPS 2022."""

from functools import partial

from openset.reproduce import _openauc_study, _properties
from openset.reproduce._item import Item

_item = partial(Item, paper="OpenAUC")
_COLUMNS = {name: name for name in ("MNIST", "SVHN", "CIFAR10")}

ITEMS = (
    _item(
        name="openauc-table1",
        number="Table 1",
        what="Which metrics have properties P1 to P4, by constructions that are run",
        needs="nothing",
        time="seconds",
        make=_properties.table1,
    ),
    _item(
        name="openauc-table2",
        number="Table 2",
        what="OpenAUC of eight methods on MNIST, SVHN and CIFAR-10, two recipes",
        needs="MNIST, SVHN, CIFAR-10; extra torch; a GPU",
        time="about six hours on an H200 (not measured)",
        make=partial(_openauc_study.table2, "openauc-table2", _COLUMNS),
    ),
    _item(
        name="openauc-table2-plus",
        number="Table 2, CIFAR+N",
        what="The same on CIFAR+10 and CIFAR+50",
        needs="CIFAR-10, CIFAR-100; extra torch; a GPU",
        time="about four hours on an H200 (not measured)",
        make=partial(
            _openauc_study.table2,
            "openauc-table2-plus",
            {"C+10": "C+10", "C+50": "C+50"},
        ),
    ),
    _item(
        name="openauc-table2-tiny",
        number="Table 2, CIFAR+N",
        what="The same with unknowns from TinyImageNet that do not overlap CIFAR-10",
        needs="CIFAR-10, tinyimagenet32_val; extra torch; a GPU",
        time="about two hours on an H200 (not measured)",
        make=partial(_openauc_study.table2, "openauc-table2-tiny", {"C+T": ""}),
    ),
    _item(
        name="openauc-table2-small",
        number="Table 2, small",
        what="All eight methods with tiny networks on MNIST, one recipe",
        needs="MNIST; extra torch",
        time="about ten minutes on two cores (estimated)",
        make=_openauc_study.table2_small,
    ),
    _item(
        name="openauc-table3",
        number="Table 3",
        what="The truth table of Proposition 8; its identity on all pairs of samples",
        needs="nothing",
        time="seconds",
        make=_properties.table3,
    ),
    _item(
        name="openauc-table4",
        number="Tables 4, 5",
        what="Seven methods on CUB, three levels",
        needs="CUB; extra torch, torchvision; a GPU",
        time="days on one GPU (not measured)",
        make=_openauc_study.tables4_and_5,
    ),
    _item(
        name="openauc-fig1",
        number="Fig. 1",
        what="Metrics of CE+ over the share of unknowns rejected",
        needs="MNIST, SVHN, CIFAR-10; extra torch; a GPU",
        time="about ten minutes on an H200 (not measured)",
        make=partial(_openauc_study.figure1, "openauc-fig1"),
    ),
    _item(
        name="openauc-fig1-small",
        number="Fig. 1, small",
        what="The same with tiny networks",
        needs="MNIST, CIFAR-10; extra torch",
        time="minutes on two cores",
        make=partial(_openauc_study.figure1, "openauc-fig1-small"),
    ),
    _item(
        name="openauc-fig2",
        number="Fig. 2",
        what="OpenAUC over λ, the weight of the ranking term, on CIFAR-10",
        needs="CIFAR-10; extra torch; a GPU",
        time="about half an hour on an H200 (not measured)",
        make=partial(_openauc_study.figure2, "openauc-fig2"),
    ),
    _item(
        name="openauc-fig2-small",
        number="Fig. 2, small",
        what="The same with tiny networks on MNIST",
        needs="MNIST; extra torch",
        time="minutes on two cores",
        make=partial(_openauc_study.figure2, "openauc-fig2-small"),
    ),
)
