"""Tables of numbers: scikit-learn's digits, which need no download, and UCI sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from openset.datasets._compact_copies import arrays_of
from openset.datasets._dataset import Dataset, consecutive
from openset.datasets._dataset_folder import DatasetFolder, reading

_LETTER_TRAIN = 16_000  # the convention of the UCI set: first 16,000 rows train


def digits(place: DatasetFolder) -> Dataset:
    """Return scikit-learn's digits: 1,797 rows of 8 x 8 pixels, values 0 to 16.

    There are no official parts: a fixed 70 % of each class train, 30 % test.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow to import

    content = load_digits()
    return Dataset(
        inputs=content.data.astype(np.float32),
        labels=content.target.astype(np.int64),
        classes=tuple("0123456789"),
        kind="table",
        name=place.name,
        note="no official parts: a fixed stratified 70/30 split",
    ).with_parts(test=0.3)


def packaged_table(name: str, path: Path) -> Dataset:
    """Read one of the UCI sets from their common compact file."""
    z = arrays_of(path, f"{name}_x", f"{name}_y", f"{name}_c")
    with reading(path, "a packaged table"):
        table = Dataset(
            inputs=z[f"{name}_x"].astype(np.float32),
            labels=z[f"{name}_y"].astype(np.int64),
            classes=tuple(str(c) for c in z[f"{name}_c"].tolist()),
            kind="table",
            name=name,
            note="" if name == "letter" else "a fixed stratified 70/30 split",
        )
    if name != "letter":
        return table.with_parts(test=0.3)
    n_test = len(table) - _LETTER_TRAIN
    return replace(table, parts=consecutive({"train": _LETTER_TRAIN, "test": n_test}))
