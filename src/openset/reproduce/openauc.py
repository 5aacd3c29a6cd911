"""The OpenAUC paper: Wang et al., NeurIPS 2022."""

from openset.reproduce import _openauc_study, _properties
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
    Item(
        name="openauc-table2",
        paper=_PAPER,
        number="Table 2",
        what="OpenAUC of eight methods on MNIST, SVHN and CIFAR-10, two recipes",
        needs="MNIST, SVHN, CIFAR-10; extra torch; a GPU",
        time="about six hours on an H200 (not measured)",
        make=_openauc_study.table2,
    ),
    Item(
        name="openauc-table2-plus",
        paper=_PAPER,
        number="Table 2, CIFAR+N",
        what="The same on CIFAR+10 and CIFAR+50",
        needs="CIFAR-10, CIFAR-100; extra torch; a GPU",
        time="about four hours on an H200 (not measured)",
        make=_openauc_study.table2_plus,
    ),
    Item(
        name="openauc-table2-tiny",
        paper=_PAPER,
        number="Table 2, CIFAR+N",
        what="The same with unknowns from TinyImageNet that do not overlap CIFAR-10",
        needs="CIFAR-10, tinyimagenet32_val; extra torch; a GPU",
        time="about two hours on an H200 (not measured)",
        make=_openauc_study.table2_tiny,
    ),
    Item(
        name="openauc-table3",
        paper=_PAPER,
        number="Table 3",
        what="The truth table of Proposition 8; its identity on all pairs of samples",
        needs="nothing",
        time="seconds",
        make=_properties.table3,
    ),
    Item(
        name="openauc-table4",
        paper=_PAPER,
        number="Tables 4, 5",
        what="Seven methods on CUB, three levels",
        needs="CUB; extra torch, torchvision; a GPU",
        time="days on one GPU (not measured)",
        make=_openauc_study.tables4_and_5,
    ),
    Item(
        name="openauc-fig1",
        paper=_PAPER,
        number="Fig. 1",
        what="Metrics of CE+ over the share of unknowns rejected",
        needs="MNIST, SVHN, CIFAR-10; extra torch; a GPU",
        time="about ten minutes on an H200 (not measured)",
        make=_openauc_study.figure1,
    ),
    Item(
        name="openauc-fig1-small",
        paper=_PAPER,
        number="Fig. 1, small",
        what="The same with tiny networks",
        needs="MNIST, CIFAR-10; extra torch",
        time="minutes on two cores",
        make=_openauc_study.figure1_small,
    ),
    Item(
        name="openauc-fig2",
        paper=_PAPER,
        number="Fig. 2",
        what="OpenAUC over λ, the weight of the ranking term, on CIFAR-10",
        needs="CIFAR-10; extra torch; a GPU",
        time="about half an hour on an H200 (not measured)",
        make=_openauc_study.figure2,
    ),
    Item(
        name="openauc-fig2-small",
        paper=_PAPER,
        number="Fig. 2, small",
        what="The same with tiny networks on MNIST",
        needs="MNIST; extra torch",
        time="minutes on two cores",
        make=_openauc_study.figure2_small,
    ),
)
