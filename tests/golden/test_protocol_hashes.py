"""Hashes of protocols, frozen: a changed one means a changed problem."""

import json
from pathlib import Path

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
CLASSES = ["Käse", "cat", "dog", "fox"]


def test_every_protocol_keeps_its_hash():
    found = {
        "holdout(10, 6, 4, rng=0)": holdout(10, 6, 4, rng=0),
        "holdout(names, 2, 1, rng=7)": holdout(CLASSES, 2, 1, rng=7),
        "outlier(10, 10, 7, 5, rng=3)": outlier(10, 10, 7, 5, rng=3),
        "operational(200, 100, 40, 60, rng=1)": operational(200, 100, 40, 60, rng=1),
        "grid(10, rng=5)[-1]": grid(10, rng=5)[-1],
        "leave_classes_out(12, 3, rng=2)[1]": leave_classes_out(12, 3, rng=2)[1],
    } | {
        f"published({name!r}, {split!r})": published(name, split)
        for name in names()
        for split in splits(name)
    }
    assert {call: protocol.hash for call, protocol in found.items()} == GOLDEN
