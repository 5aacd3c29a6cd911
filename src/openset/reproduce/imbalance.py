"""The class-imbalance paper: Komorniczak and Ksieniewicz, 2024."""

from openset.reproduce._item import Item

ITEMS: tuple[Item, ...] = ()
