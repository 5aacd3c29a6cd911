"""Hashes of protocols, frozen: a changed one means a changed problem."""

import json
from pathlib import Path

import pytest

from openset.protocols import (
    grid,
    holdout,
    leave_classes_out,
    names,
    operational,
    outlier,
    published,
    splits,
)

GOLDEN = json.loads(Path(__file__).with_name("protocols.json").read_text("utf-8"))
DRAWN = {
    "holdout(10, 6, 4, rng=0)": lambda: holdout(10, 6, 4, rng=0),
    "holdout(names, 2, 1, rng=7)": lambda: holdout(
        ["Käse", "cat", "dog", "fox"], 2, 1, rng=7
    ),
    "outlier(10, 10, 7, 5, rng=3)": lambda: outlier(10, 10, 7, 5, rng=3),
    "operational(200, 100, 40, 60, rng=1)": lambda: operational(
        200, 100, 40, 60, rng=1
    ),
    "grid(10, rng=5)[-1]": lambda: grid(10, rng=5)[-1],
    "leave_classes_out(12, 3, rng=2)[1]": lambda: leave_classes_out(12, 3, rng=2)[1],
}


@pytest.mark.parametrize("call", DRAWN)
def test_a_drawn_protocol_keeps_its_hash(call):
    assert DRAWN[call]().hash == GOLDEN[call]


def test_every_published_protocol_keeps_its_hash():
    found = {
        f"published({name!r}, {split!r})": published(name, split).hash
        for name in names()
        for split in splits(name)
    }
    assert found == {k: v for k, v in GOLDEN.items() if k.startswith("published")}
