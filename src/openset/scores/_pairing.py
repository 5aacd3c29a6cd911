"""Scores of the same samples, brought into the same order."""

from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, _class_names
from openset._types import UNKNOWN

if TYPE_CHECKING:
    from openset.scores._scores import Scores  # it imports us

_Scores = TypeVar("_Scores", bound="Scores")

_NAMED = 2  # ids that an error names
_SAME = "Score the same outputs with every detector"
_LEAVE_OUT = (
    "If only the ids differ, and rows are in the same order, leave ids out: "
    "Scores.load(path, columns={'ids': ''}), in the shell --columns ids="
)


def in_order_of(
    scores: _Scores, first: "Scores", *, caller: str, names: tuple[str, str]
) -> _Scores:
    """Return `scores` in the order of `first`; raise if they are of other samples.

    Samples are told by their ids. Where one of the two has none they are taken to be in
    the same order, and labels must agree. `names` are those of `first` and `scores` in
    errors. Scores that are in order are returned as they are.
    """
    if first.ids is None or scores.ids is None:
        _need_same_rows(scores, first, caller=caller, names=names)
        return scores
    ids, wanted_ids = _alike(scores.ids, first.ids)
    rows = _rows(ids, wanted_ids, caller=caller, names=names)
    found = scores if rows is None else scores.take(rows)
    wanted, got = comparable_labels(first, found)
    differ = np.flatnonzero(wanted != got)
    if differ.size:
        row = differ[0]
        _check.fail(
            caller,
            f"labels of {names[1]}",
            f"those of {names[0]} for the same ids",
            f"others for {differ.size} of {len(first)} ids, such as "
            f"{_label(found, row)} instead of {_label(first, row)} for "
            f"{first.ids[row].item()!r}",
        )
    return found


def need_same_ids(
    scores: "Scores", first: "Scores", *, caller: str, names: tuple[str, str]
) -> None:
    """Raise if both have ids, and not the same ones; their order may differ."""
    if first.ids is None or scores.ids is None:
        return
    ids, wanted = _alike(scores.ids, first.ids)
    if not np.array_equal(np.sort(ids), np.sort(wanted)):
        is_missing = ~np.isin(wanted, ids)
        _refuse_others(ids, wanted, is_missing, caller=caller, names=names)


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
    _, moved = _class_names.merged([names[0], names[1]])
    first, second = (
        # the label -1 takes the last entry
        np.append(move, UNKNOWN)[scores.labels]
        for move, scores in zip(moved, (one, other), strict=True)
    )
    return first, second


def _need_same_rows(
    scores: "Scores", first: "Scores", *, caller: str, names: tuple[str, str]
) -> None:
    remedy = _SAME
    if len(scores) != len(first):
        got = f"{len(scores)} samples instead of {len(first)}"
    else:
        wanted, labels = comparable_labels(first, scores)
        n_different = int(np.count_nonzero(wanted != labels))
        if n_different == 0:
            return
        got = f"different labels in {n_different} of {len(first)} rows"
        remedy += "; or give ids to both, and samples may be in any order"
    rule = f"of the same samples in the same order as {names[0]}"
    _check.fail(caller, names[1], rule, got, remedy)


def _alike(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ids of one kind: what are numbers in other files is text in a ``.csv``."""
    if one.dtype.kind == other.dtype.kind:
        return one, other
    return one.astype(np.str_), other.astype(np.str_)


def _rows(
    ids: NDArray[Any], wanted: NDArray[Any], *, caller: str, names: tuple[str, str]
) -> NDArray[np.intp] | None:
    """Return the row of each wanted id; None if they are in this order already."""
    if np.array_equal(ids, wanted):
        return None
    # A dictionary is quicker than to sort names, which are compared letter by letter.
    row_of = dict(zip(ids.tolist(), range(ids.size), strict=True))
    rows = np.fromiter(map(row_of.get, wanted.tolist(), repeat(-1)), dtype=np.intp)
    is_missing = rows < 0
    if is_missing.any() or ids.size != wanted.size:
        _refuse_others(ids, wanted, is_missing, caller=caller, names=names)
    # Equally many, and none is missing: if one occurs twice in one set, some row is not
    # taken, or taken twice.
    n_taken = np.bincount(rows, minlength=ids.size)
    if n_taken.max() > 1:
        twice = ids[np.argmax(n_taken)].item()
        _check.fail(
            caller,
            f"ids of {names[0]} and {names[1]}",
            "different, as samples are in another order",
            f"{twice!r} several times",
            "What several samples have in common is a group",
        )
    return rows


def _refuse_others(
    ids: NDArray[Any],
    wanted: NDArray[Any],
    is_missing: NDArray[np.bool_],
    *,
    caller: str,
    names: tuple[str, str],
) -> None:
    missing, others = wanted[is_missing], ids[~np.isin(ids, wanted)]
    parts = []
    if missing.size:
        parts.append(f"none for {missing.size} of {wanted.size} ids{_such_as(missing)}")
    if others.size:
        parts.append(f"{others.size} with other ids{_such_as(others)}")
    _check.fail(
        caller,
        names[1],
        f"of the same samples as {names[0]}",
        " and ".join(parts) or "some of its ids several times",
        _LEAVE_OUT if ids.size == wanted.size else _SAME,
    )


def _such_as(ids: NDArray[Any]) -> str:
    named = " and ".join(repr(one) for one in ids[:_NAMED].tolist())
    return f" ({named}{', …' if ids.size > _NAMED else ''})"


def _label(scores: "Scores", row: int) -> str:
    label = int(scores.labels[row])
    if scores.class_names is None or label == UNKNOWN:
        return str(label)
    return repr(scores.class_names[label])
