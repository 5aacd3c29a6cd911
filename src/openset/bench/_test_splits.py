"""Test splits: each is a repeat of its own; all of them share one network."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, ArtefactError
from openset.bench._study import Saved
from openset.datasets import Samples
from openset.outputs import Outputs
from openset.protocols.sampling import Stream, deal
from openset.scores import Scores

Masks = NDArray[np.bool_]
"""One row per test split: which samples of the whole test part it holds."""

_FILE = "test_splits.npy"


def of_samples(whole: Samples, splits: tuple[Samples, ...]) -> Masks:
    """Return which samples of the test part are in each of its splits."""
    ids = whole.ids
    return np.stack([np.isin(ids, split.ids) for split in splits])


def of_labels(test: Outputs | Scores, *, n: int, unknowns: str, rng: int) -> Masks:
    """Divide a saved test part into `n` test splits, as `datasets.cut` divides samples.

    Every known sample is in exactly one split, in equal numbers per class. Unknown
    samples are divided alike, by group ("dealt"), or are all in each ("shared").

    Examples
    --------
    >>> test = Outputs(logits=np.zeros((6, 2)), labels=[0, 0, 1, 1, -1, -1])
    >>> of_labels(test, n=2, unknowns="shared", rng=0).sum(axis=1)
    array([4, 4])
    """
    if test.labels is None:
        msg = _check.must(
            "labelled", caller="bench", name="the test part", got="no labels"
        )
        raise ValueError(msg)
    is_unknown = test.labels == UNKNOWN
    strata = np.where(is_unknown, test.labels.max() + 1, test.labels)
    if test.groups is not None:
        _, group = np.unique(test.groups.astype(str), return_inverse=True)
        strata = np.where(is_unknown, strata + group, strata)
    bins = deal(strata, n, Stream("bench", rng))
    masks = bins == np.arange(n)[:, None]
    if unknowns == "shared":
        masks |= is_unknown
    for side, mine in (("known", ~is_unknown), ("unknown", is_unknown)):
        if mine.any() and not (masks & mine).any(axis=1).all():
            msg = _check.must(
                f"at most the number of {side} test samples",
                caller="bench",
                name="n_tests",
                got=f"{n} with {int(mine.sum())} {side} samples",
                remedy="Or give every split all unknowns: unknowns: shared"
                if side == "unknown"
                else "",
            )
            raise ValueError(msg)
    return masks


def save(masks: Masks, folder: Path) -> None:
    """Write the splits beside the outputs of a network."""
    np.save(folder / _FILE, masks, allow_pickle=False)


def rows(
    folder: Path, test: Outputs | Scores, saved: Saved | None, split: int
) -> Masks:
    """Return the mask of one split of a network's or of saved outputs' test part."""
    if saved is not None:
        n, unknowns, rng = saved.n_tests, saved.unknowns, saved.rng
        return of_labels(test, n=n, unknowns=unknowns, rng=rng)[split]
    path = folder / _FILE
    try:
        masks = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        msg = (
            f"bench: {path} is missing or damaged ({error}). Delete {folder}: the next "
            "run trains it again"
        )
        raise ArtefactError(msg) from error
    return masks[split]
