"""Scores of the same samples, brought into the same order."""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, _class_names

if TYPE_CHECKING:
    from openset.scores.scores import Scores  # it imports us

_Scores = TypeVar("_Scores", bound="Scores")


def in_order_of(
    scores: _Scores, first: "Scores", *, caller: str, names: tuple[str, str]
) -> _Scores:
    """Return `scores` in the order of `first`; raise if they are of other samples.

    Samples are told by their ids. Where one of the two has none they are taken to be in
    the same order, and labels must agree. `names` are those of `first` and `scores` in
    errors. Scores that are in order are returned as they are.
    """
    found, remedy = scores, ""
    if first.ids is None or scores.ids is None:
        remedy = "Give ids to both, and samples may be in any order"
        if len(scores) != len(first):
            rule = f"of the same samples in the same order as {names[0]}"
            got = f"{len(scores)} samples instead of {len(first)}"
            _check.fail(caller, names[1], rule, got, remedy)
    else:
        rows = _rows(scores.ids, first.ids, caller=caller, names=names)
        found = scores if rows is None else scores.take(rows)
    wanted, labels = comparable_labels(first, found)
    if n := np.count_nonzero(wanted != labels):
        rule = f"those of {names[0]} for the same samples"
        got = f"others for {n} of {len(first)}"
        _check.fail(caller, f"labels of {names[1]}", rule, got, remedy)
    return found


def seems_reordered(scores: "Scores", first: "Scores") -> bool:
    """Whether scores without ids seem to be of one network, with its samples shuffled.

    Another network makes other errors; the same one, in another order, equally many of
    each kind.
    """
    if first.ids is not None and scores.ids is not None:
        return False
    if np.array_equal(first.predicted, scores.predicted):
        return False
    pairs = (np.stack([one.labels, one.predicted]) for one in (first, scores))
    one, other = (both[:, np.lexsort(both)] for both in pairs)
    return np.array_equal(one, other)


def comparable_labels(
    one: "Scores", other: "Scores"
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of both, with equal numbers for classes of the same name."""
    names = one.class_names, other.class_names
    if names[0] is None or names[1] is None or names[0] == names[1]:
        return one.labels, other.labels
    _, (first, second) = _class_names.merged([names[0], names[1]])
    return first[one.labels], second[other.labels]


def _rows(
    ids: NDArray[Any], wanted: NDArray[Any], *, caller: str, names: tuple[str, str]
) -> list[int] | None:
    """Return the row of each wanted id; None if they are in this order already."""
    if ids.dtype.kind != wanted.dtype.kind:  # numbers elsewhere are text in a .csv
        ids, wanted = ids.astype(np.str_), wanted.astype(np.str_)
    if np.array_equal(ids, wanted):
        return None
    # A dictionary is quicker than to sort names, which are compared letter by letter.
    row_of = {one: row for row, one in enumerate(ids.tolist())}
    rows = [row_of.get(one, -1) for one in wanted.tolist()]
    if ids.size != wanted.size or -1 in rows or len({*rows}) < len(rows):
        missing, others = np.setdiff1d(wanted, ids), np.setdiff1d(ids, wanted)
        got = " and ".join(
            f"{one.size} {what} ids such as {one[:2].tolist()}"
            for one, what in ((missing, "missing"), (others, "other"))
            if one.size
        )
        _check.fail(
            caller,
            names[1],
            f"of the same samples as {names[0]}",
            got or "some ids several times, and in another order",
            "If rows are in the same order and only the ids differ, leave ids out: "
            "Scores.load(path, columns={'ids': ''}), in the shell --columns ids=",
        )
    return rows
