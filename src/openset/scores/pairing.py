"""Scores of the same samples, brought into the same order."""

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, _class_names
from openset._types import UNKNOWN

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
    if first.ids is None or scores.ids is None:
        rule = f"of the same samples in the same order as {names[0]}"
        if len(scores) != len(first):
            got = f"{len(scores)} samples instead of {len(first)}"
            _check.fail(caller, names[1], rule, got)
        wanted, labels = comparable_labels(first, scores)
        if n := np.count_nonzero(wanted != labels):
            got = f"different labels in {n} of {len(first)} rows"
            remedy = "Give ids to both, and samples may be in any order"
            _check.fail(caller, names[1], rule, got, remedy)
        return scores
    rows = _rows(*_alike(scores.ids, first.ids), caller=caller, names=names)
    found = scores if rows is None else scores.take(rows)
    wanted, labels = comparable_labels(first, found)
    if (differ := wanted != labels).any():
        n, one = np.count_nonzero(differ), first.ids[differ][0].item()
        rule = f"those of {names[0]} for the same ids"
        got = f"others for {n} of {len(first)} ids, such as {one!r}"
        _check.fail(caller, f"labels of {names[1]}", rule, got)
    return found


def need_same_ids(
    scores: "Scores", first: "Scores", *, caller: str, names: tuple[str, str]
) -> None:
    """Raise if both have ids, and not the same ones; their order may differ."""
    if first.ids is None or scores.ids is None:
        return
    ids, wanted = _alike(scores.ids, first.ids)
    if not np.array_equal(np.sort(ids), np.sort(wanted)):
        _refuse_others(ids, wanted, caller=caller, names=names)


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
    # The label -1 takes the last entry.
    return np.append(first, UNKNOWN)[one.labels], np.append(second, UNKNOWN)[
        other.labels
    ]


def _alike(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ids of one kind: what are numbers in other files is text in a ``.csv``."""
    if one.dtype.kind == other.dtype.kind:
        return one, other
    return one.astype(np.str_), other.astype(np.str_)


def _rows(
    ids: NDArray[Any], wanted: NDArray[Any], *, caller: str, names: tuple[str, str]
) -> list[int] | None:
    """Return the row of each wanted id; None if they are in this order already."""
    if np.array_equal(ids, wanted):
        return None
    # A dictionary is quicker than to sort names, which are compared letter by letter.
    row_of = {one: row for row, one in enumerate(ids.tolist())}
    rows = [row_of.get(one, -1) for one in wanted.tolist()]
    if ids.size != wanted.size or -1 in rows:
        _refuse_others(ids, wanted, caller=caller, names=names)
    if len(set(rows)) < len(rows):
        both = f"ids of {names[0]} and {names[1]}"
        rule = "different, as samples are in another order"
        _check.fail(caller, both, rule, f"{len(set(rows))} among {len(rows)}")
    return rows


def _refuse_others(
    ids: NDArray[Any], wanted: NDArray[Any], *, caller: str, names: tuple[str, str]
) -> NoReturn:
    missing, others = wanted[~np.isin(wanted, ids)], ids[~np.isin(ids, wanted)]
    got = " and ".join(
        f"{one.size} {what} ids such as {one[:2].tolist()}"
        for one, what in ((missing, "missing"), (others, "other"))
        if one.size
    )
    _check.fail(
        caller,
        names[1],
        f"of the same samples as {names[0]}",
        got or "some of its ids several times",
        "If rows are in the same order and only the ids differ, leave ids out: "
        "Scores.load(path, columns={'ids': ''}), in the shell --columns ids=",
    )
