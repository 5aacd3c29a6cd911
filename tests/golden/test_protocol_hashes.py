"""Hashes of protocols, frozen: a changed one means a changed problem."""

import json
from pathlib import Path

from openset.protocols import names, published, splits

GOLDEN = json.loads(Path(__file__).with_name("protocols.json").read_text("utf-8"))


def test_every_published_protocol_keeps_its_hash():
    found = {
        f"published({name!r}, {split!r})": published(name, split).hash
        for name in names()
        for split in splits(name)
    }
    assert found == GOLDEN
