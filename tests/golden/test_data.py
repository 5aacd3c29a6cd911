"""Bundled data, cuts and folds, frozen: the same bytes, ids and labels for ever."""

import hashlib
import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from openset import datasets, protocols

GOLDEN = Path(__file__).with_name("data.json")
BUNDLED = ("digits", "letter", "penbased", "optdigits", "satimage", "vowel", "segment")
TEXTS = ("clinc150", "banking77")


def digest(*values):
    """Hash arrays and texts, with their types and shapes."""
    found = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        found.update(f"{array.dtype.kind}{array.itemsize}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def of_dataset(data):
    arrays = {"inputs": data.inputs, "labels": data.labels, "classes": data.classes}
    arrays |= {f"part {name}": rows for name, rows in data.parts.items()}
    about = (data.kind, data.name, data.unlisted, data.label_set)
    return {name: digest(one) for name, one in arrays.items()} | {"about": list(about)}


def of_cut(cut):
    parts = {"train": cut.train, "validation": cut.validation}
    parts |= {"negative": cut.negative, "surrogate": cut.surrogate}
    parts |= {f"test {i}": one for i, one in enumerate(cut.tests)}
    return {
        name: [len(s), digest(s.inputs, s.labels), digest(s.groups, s.ids)]
        for name, s in parts.items()
        if s is not None
    }


def numbers():
    """Return what is promised never to change."""
    sets = {name: datasets.load(name) for name in (*BUNDLED, *TEXTS)}
    found = {name: of_dataset(one) for name, one in sets.items()}
    digits, letter, pens = sets["digits"], sets["letter"], sets["penbased"]
    drawn = {
        "holdout": protocols.holdout(digits, 6, 4, rng=3),
        "operational": protocols.operational(digits, 5, 2, 3, rng=1, n_tests=4),
        "shared": protocols.operational(
            digits, 4, 3, 2, rng=2, n_tests=3, unknowns="shared"
        ),
        "by name": protocols.Protocol(known=["7", "1"], unknown=["3"], validation=0.35),
    }
    found |= {f"cut {n}": of_cut(datasets.cut(digits, p)) for n, p in drawn.items()}
    p = protocols.outlier(pens, letter, 4, 20, rng=5)
    found["cut outlier"] = of_cut(datasets.cut(pens, p, unknown=letter))
    known = protocols.Protocol(known=range(5), unknown=[5, 6], source="penbased")
    for name, negatives in (("another", letter), ("the rest", pens)):
        own = replace(known, validation=0.1)
        joined = datasets.with_negatives(own, pens, negatives)
        more = {} if negatives is pens else {"negative": letter}
        found[f"negatives of {name}"] = [
            joined.hash,
            of_cut(datasets.cut(pens, joined, **more)),
        ]
    for how in ("dealt", "shared"):
        made = datasets.folds(digits, drawn["holdout"], 3, unknowns=how)
        found[f"folds {how}"] = [of_cut(one) for one in made]
    p = replace(p, validation=0.2)
    made = datasets.folds(pens, p, 2, unknown=letter)
    found["folds outlier"] = [of_cut(one) for one in made]
    for rng in (0, 4):
        parts = digits.with_parts(test=0.2, rng=rng).parts
        found[f"with_parts {rng}"] = {k: digest(v) for k, v in parts.items()}
    few = datasets.cut(digits, drawn["holdout"]).test.at_most(50, seed=3)
    found["at_most"] = digest(few.inputs, few.labels, few.ids)
    oos = protocols.Protocol(known=["transfer", "balance"], unknown=["oos"])
    found["cut texts"] = of_cut(datasets.cut(sets["clinc150"], oos))
    made = {field.name for field in fields(protocols.Protocol)}
    found["fields of a protocol"] = sorted(made)
    found["draws"] = {
        name: digest([p.hash for p in draws])
        for name, draws in {
            "holdout": protocols.holdout(17, 4, 9, repeats=7, rng=11),
            "outlier": protocols.outlier(9, 12, repeats=3, rng=12),
            "operational": protocols.operational(30, 9, 5, 7, repeats=4, rng=13),
            "grid": protocols.grid(7, repeats=2, rng=14),
            "grid of two": protocols.grid(5, range(10, 16), sizes=[(4, 2), (2, 6)]),
            "default": protocols.default(100),
            "left out": protocols.leave_classes_out(range(12), 3, rng=15),
        }.items()
    }
    return found


def test_data_and_their_parts_stay_the_same():
    found, golden = numbers(), json.loads(GOLDEN.read_text("utf-8"))
    assert {k: v for k, v in found.items() if v != golden.get(k)} == {}
    assert set(found) == set(golden)


if __name__ == "__main__" and "--record" in sys.argv:
    GOLDEN.write_text(json.dumps(numbers(), indent=1) + "\n", "utf-8")
