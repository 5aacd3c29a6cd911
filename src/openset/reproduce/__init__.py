"""Tables and figures of three papers, recomputed next to the published numbers.

``openset reproduce --list`` names the items, ``openset reproduce NAME`` runs one:

* Wang et al., OpenAUC, NeurIPS 2022;
* Komorniczak and Ksieniewicz, class imbalance, 2024;
* Cruz et al., PostMax, ECCV 2024.

What they are is in ``items.toml``, the published numbers are in ``published/``, the
studies in ``studies/``. Needs the extras `bench` and `report`; items that train
networks need `torch`.
"""

from openset.reproduce import consistency
from openset.reproduce.item import Content, Item, Measured, Table, items, published, run

__all__ = [
    "Content",
    "Item",
    "Measured",
    "Table",
    "consistency",
    "items",
    "published",
    "run",
]
