"""Sentence embeddings of CLINC150: the texts as a table of numbers."""

from pathlib import Path

import numpy as np

from openset._types import UNKNOWN
from openset.datasets._compact_copies import arrays_of
from openset.datasets._dataset import Dataset, consecutive
from openset.datasets._dataset_folder import reading
from openset.datasets._text import packaged_clinc150

_TEXTS = "clinc150.json.xz"


def clinc150_minilm(name: str, path: Path) -> Dataset:
    """Read embeddings by all-MiniLM-L6-v2; the class names come from the texts."""
    texts = packaged_clinc150("clinc150", _beside(path))
    wanted = [f"{p}_{k}" for p in ("train", "val", "test") for k in "xy"]
    z = arrays_of(path, *wanted, "oos_train_x")
    outside = np.full(len(z["oos_train_x"]), UNKNOWN)
    with reading(path, "embeddings of CLINC150"):
        parts = {
            "train": (
                np.concatenate([z["train_x"], z["oos_train_x"]]),
                np.concatenate([z["train_y"], outside]),
            ),
            "validation": (z["val_x"], z["val_y"]),
            "test": (z["test_x"], z["test_y"]),
        }
        inputs = np.concatenate([x for x, _ in parts.values()])
        labels = np.concatenate([y for _, y in parts.values()])
    return Dataset(
        inputs=inputs.astype(np.float32),
        labels=labels.astype(np.int64),
        classes=texts.classes,
        kind="table",
        name=name,
        parts=consecutive({part: len(y) for part, (_, y) in parts.items()}),
        unlisted=texts.unlisted,
        note="sentence embeddings (all-MiniLM-L6-v2) of 50 training texts per intent; "
        "label -1: out of scope; name it 'oos' in a protocol",
    )


def _beside(path: Path) -> Path:
    """Return the file of the texts, beside the embeddings or in its own folder."""
    for found in (path.parent / _TEXTS, path.parent.parent / "clinc150" / _TEXTS):
        if found.exists():
            return found
    msg = (
        f"datasets.load: {path.name} has no class names; put {_TEXTS} beside it "
        f"(see: openset datasets clinc150)"
    )
    raise FileNotFoundError(msg)
