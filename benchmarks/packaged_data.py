"""The data of the benchmarks: files in one folder, read into arrays.

The folder is ``$OPENSET_DATA`` (default: ``data`` in the checkout), and get_data.py
fills it; README.md says with what. Three of the sets are not among openset's own:
studies name these by their loader, as in ``packaged_data:notmnist``.
"""

import io
import json
import lzma
import os
from functools import cache
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from openset import UNKNOWN, datasets
from openset.datasets import Dataset

DATA = Path(os.environ.get("OPENSET_DATA") or Path(__file__).parents[1] / "data")
_FILES = {
    "notmnist": "notmnist_test.npz.xz",
    "texture": "tabular.npz.xz",
    "clinc150_minilm": "clinc150_minilm.npz",
    "imagenet_lite0": "imagenet_lite0_features.npz",
}
_TABLES = ("letter", "penbased", "optdigits", "satimage", "texture", "vowel", "segment")
_LETTER_TRAIN = 16_000  # the convention of the UCI set
_IMAGENET_PARTS = ("fit", "calibration", "surrogate", "test_known", "test_unknown")


def reader() -> Any:
    """Return an object with `load` and `outputs`; what was decoded is kept."""
    if not DATA.is_dir():
        msg = f"no folder {DATA}. {how_to_get()}"
        raise SystemExit(msg)
    return SimpleNamespace(load=cache(load), outputs=outputs)


def how_to_get(name: str = "") -> str:
    """Say what to type for one set, or for all."""
    only = f" --only {name}" if name else ""
    return (
        f"Get the data: python benchmarks/get_data.py {DATA}{only}, "
        "or set OPENSET_DATA to their folder (benchmarks/README.md)"
    )


def notmnist(root: Path) -> Dataset:  # noqa: ARG001  # every loader is given a root
    """Read the test part of notMNIST: letters A to J in many fonts, 28 x 28 grey."""
    z = arrays("notmnist")
    return Dataset(
        inputs=z["test_x"],
        labels=z["test_y"].astype(np.int64),
        classes=tuple("ABCDEFGHIJ"),
        kind="image",
        name="notmnist",
        parts={"test": np.arange(len(z["test_y"]))},
        note="labels are noisy upstream; test part only",
    )


def texture(root: Path) -> Dataset:  # noqa: ARG001
    """Read the textures of KEEL, 40 columns; their licence is not stated."""
    z = arrays("texture")
    return Dataset(
        inputs=z["texture_x"],
        labels=z["texture_y"].astype(np.int64),
        classes=tuple(z["texture_c"].tolist()),
        kind="table",
        name="texture",
        note="a fixed stratified 70/30 split",
    ).with_parts(test=0.3)


def clinc150_minilm(root: Path) -> Dataset:  # noqa: ARG001
    """Read sentence embeddings of CLINC150 (all-MiniLM-L6-v2, 384 numbers)."""
    made = outputs("clinc150_minilm")
    every = [made[part] for part in ("train", "oos_train", "val", "test")]
    labels = np.concatenate([one["labels"] for one in every])
    n_train, n_outside, n_val, _ = (len(one["labels"]) for one in every)
    ends = [n_train + n_outside, n_train + n_outside + n_val]
    rows = np.split(np.arange(len(labels)), ends)
    return Dataset(
        inputs=np.concatenate([one["features"] for one in every]),
        labels=labels,
        classes=datasets.load("clinc150").classes,
        kind="table",
        name="clinc150-minilm",
        parts=dict(zip(("train", "validation", "test"), rows, strict=True)),
        unlisted="oos",
        note="sentence embeddings (all-MiniLM-L6-v2) of 50 training texts per intent; "
        "label -1: out of scope; name it 'oos' in a protocol",
    )


def load(name: str) -> dict[str, Any]:
    """Return inputs and labels of the parts, and the names of the classes."""
    if name in _TABLES:
        return _table(name)
    found = notmnist(DATA) if name == "notmnist" else _own(name)
    made: dict[str, Any] = {"class_names": list(found.classes)}
    for part, key in (("train", "train"), ("validation", "val"), ("test", "test")):
        if part in found.parts:
            rows = found.parts[part]
            x, y = found.inputs[rows], found.labels[rows]
            if part == "train":
                x, y = x[y != UNKNOWN], y[y != UNKNOWN]
            made |= {f"{key}_x": x, f"{key}_y": y}
    if name == "clinc150":
        made["domains"] = _domains()
    if found.ids:
        made["wnids"] = list(found.ids)
    if name.startswith("omniglot"):
        alphabets = [one.partition("/")[0] for one in found.classes]
        number = {one: i for i, one in enumerate(dict.fromkeys(alphabets))}
        of_class = np.array([number[one] for one in alphabets])
        for part in ("train", "test"):
            made[f"{part}_alphabet"] = of_class[made[f"{part}_y"]]
    return made


def outputs(name: str) -> dict[str, Any]:
    """Return real network outputs: features, labels, and logits where there are any."""
    if name == "clinc150_minilm":
        z = arrays("clinc150_minilm")
        made = {
            part: {
                "features": z[f"{part}_x"].astype(np.float32),
                "labels": z[f"{part}_y"].astype(np.int64),
            }
            for part in ("train", "val", "test")
        }
        outside = z["oos_train_x"].astype(np.float32)
        labels = np.full(len(outside), UNKNOWN)
        return made | {"oos_train": {"features": outside, "labels": labels}}
    if name != "imagenet_lite0":
        raise KeyError(name)
    z = arrays("imagenet_lite0")
    weight, bias = z["weight"].astype(np.float32), z["bias"]
    parts: dict[str, Any] = {"head": {"weight": weight, "bias": bias}}
    for part in _IMAGENET_PARTS:
        features = z[f"{part}_features"].astype(np.float32)
        parts[part] = {
            "features": features,
            "logits": features @ weight.T + bias,
            "labels": z[f"{part}_labels"].astype(np.int64),
            "groups": z[f"{part}_groups"],
        }
    return parts


def _own(name: str) -> Dataset:
    try:
        return datasets.load(name, DATA, offline=True)
    except FileNotFoundError as error:
        msg = f"{error}\n{how_to_get('omniglot' if name == 'omniglot28' else name)}"
        raise FileNotFoundError(msg) from error


def _table(name: str) -> dict[str, Any]:
    """Return a table with the split that the published tables of results used."""
    found = texture(DATA) if name == "texture" else _own(name)
    x, y, classes = found.inputs, found.labels, list(found.classes)
    train = np.arange(len(y)) < _LETTER_TRAIN
    if name != "letter":
        train = np.zeros(len(y), bool)
        rng = np.random.RandomState(0)  # as in the published tables
        for number in range(len(classes)):
            rows = rng.permutation(np.flatnonzero(y == number))
            train[rows[: round(0.7 * len(rows))]] = True
    return {
        "train_x": x[train],
        "train_y": y[train],
        "test_x": x[~train],
        "test_y": y[~train],
        "class_names": classes,
    }


def _domains() -> dict[str, list[str]]:
    path = resources.files(datasets) / "files" / "clinc150.json.xz"
    found: dict[str, list[str]] = json.loads(lzma.decompress(path.read_bytes()))[
        "domains"
    ]
    return found


def arrays(name: str) -> dict[str, Any]:
    """Return the arrays of a file that get_data.py makes."""
    path = DATA / _FILES[name]
    if not path.exists():
        msg = f"no file {path}. {how_to_get(name)}"
        raise FileNotFoundError(msg)
    raw = path.read_bytes()
    raw = lzma.decompress(raw) if path.suffix == ".xz" else raw
    with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
        return dict(archive)
