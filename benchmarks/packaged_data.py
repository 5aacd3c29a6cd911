"""The data of the benchmarks: files in one folder, read into arrays.

The folder is ``$OPENSET_DATA`` (default: ``data`` in the checkout), and get_data.py
fills it; README.md says with what. Three of the sets are not among openset's own:
studies name these by their loader, as in ``packaged_data:notmnist``.
"""

import io
import lzma
import os
from pathlib import Path
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
_IMAGENET_PARTS = ("fit", "calibration", "surrogate", "test_known", "test_unknown")


def how_to_get(name: str = "") -> str:
    """Say what to type for one set, or for all."""
    only = f" --only {name}" if name else ""
    return (
        f"Get the data: python benchmarks/get_data.py {DATA}{only}, "
        "or set OPENSET_DATA to their folder (benchmarks/README.md)"
    )


def notmnist(root: Path) -> Dataset:  # noqa: ARG001  # every loader is given a root
    """Read the test part of notMNIST: letters A to J in many fonts, 28 x 28 grey.

    Its labels are noisy upstream.
    """
    z = arrays("notmnist")
    return Dataset(
        inputs=z["test_x"],
        labels=z["test_y"].astype(np.int64),
        classes=tuple("ABCDEFGHIJ"),
        kind="image",
        name="notmnist",
        parts={"test": np.arange(len(z["test_y"]))},
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
    ).with_parts(test=0.3)


def clinc150_minilm(root: Path) -> Dataset:  # noqa: ARG001
    """Read sentence embeddings of CLINC150 (all-MiniLM-L6-v2, 384 numbers).

    They are of 50 training texts per intent.
    """
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
    )


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
