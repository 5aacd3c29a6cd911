"""Cuts a data set into the parts of a protocol, or into folds."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.datasets import lazy_inputs
from openset.datasets._copies import need_no_copies
from openset.datasets._dataset import Dataset
from openset.datasets._samples import Cut, Rows, Samples
from openset.protocols import Protocol
from openset.protocols.sampling import UNKNOWNS, Stream, deal, take_share

_ALL = ""  # no part has this name: all samples


@dataclass(frozen=True, eq=False)
class _Pool:
    """Rows of one data set that belong to one part, and the class number of each."""

    dataset: Dataset
    rows: Rows
    strata: NDArray[np.int64]

    def take(self, mask: Any) -> "_Pool":
        return _Pool(self.dataset, self.rows[mask], self.strata[mask])


def cut(
    dataset: Dataset,
    protocol: Protocol,
    *,
    unknown: Dataset | None = None,
    negative: Dataset | None = None,
    surrogate: Dataset | None = None,
) -> Cut:
    """Cut a data set into the parts of a protocol.

    * train: known classes of the training part, without the validation share;
    * validation: the share `protocol.validation` of each class, or, if that is 0, the
      data set's own validation part where it has one;
    * negative, surrogate: samples of those classes from the training part (from all
      samples, if their data set has no training part); copies of unknown test samples
      in another data set are refused;
    * test: the test part, known and unknown classes, in `protocol.n_tests` splits (of
      another data set that has no test part: all samples).

    Parameters
    ----------
    dataset
        Where the known classes come from.
    protocol
        Which classes are known and unknown.
    unknown, negative, surrogate
        Data sets of these parts, if the protocol names another source for them.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> digits = datasets.load("digits")
    >>> one = cut(digits, protocols.holdout(digits, 6, 4, rng=0))
    >>> one
    Cut(train=753, test=539)
    >>> one.test
    Samples(table, known=322, unknown=217, classes=6)
    """
    caller = "cut"
    _check_kinds(caller, dataset, protocol)
    others = {"unknown": unknown, "negative": negative, "surrogate": surrogate}
    sets = _sets(caller, dataset, protocol, others)
    for part in ("train", "test"):
        if part not in dataset.parts:
            have = ", ".join(dataset.parts) or "no parts"
            msg = (
                f"cut: {dataset.name or 'the data set'} must have a {part} part, "
                f"got {have}. Draw parts with dataset.with_parts(test=0.3), or "
                "use cross-validation: datasets.folds"
            )
            raise ValueError(msg)
    stream = Stream(caller, protocol.seed)
    train = _pool(caller, protocol, "known", dataset, "train")
    validation = None
    if protocol.validation:
        is_held = take_share(train.strata, protocol.validation, stream)
        train, validation = train.take(~is_held), train.take(is_held)
        _all_there(caller, protocol, "known", train, "train")
        _all_there(caller, protocol, "known", validation, "validation")
    elif "validation" in dataset.parts:
        validation = _pool(caller, protocol, "known", dataset, "validation")
    known = _pool(caller, protocol, "known", dataset, "test")
    strange = _pool(caller, protocol, "unknown", sets["unknown"], "test")
    extra = {
        part: _pool(caller, protocol, part, sets[part], "train")
        for part in ("negative", "surrogate")
        if getattr(protocol, part)
    }
    for part, pool in extra.items():
        if pool.dataset is not strange.dataset:  # within one, classes tell them apart
            need_no_copies(
                caller,
                part,
                pool.dataset.inputs,
                pool.rows,
                tested=strange.dataset.inputs,
                tested_rows=strange.rows,
            )
    tests = _test_splits(known, strange, protocol, stream)
    names = tuple(dataset.classes[dataset.number(c)] for c in protocol.known)
    return Cut(
        protocol=protocol,
        train=_samples(caller, names, train),
        validation=None if validation is None else _samples(caller, names, validation),
        tests=tuple(_samples(caller, names, a, b) for a, b in tests),
        **{part: _samples(caller, names, None, pool) for part, pool in extra.items()},
    )


def folds(
    dataset: Dataset,
    protocol: Protocol,
    n_folds: int = 5,
    *,
    unknown: Dataset | None = None,
    unknowns: str = "dealt",
) -> tuple[Cut, ...]:
    """Cut a data set into folds for cross-validation; official parts are merged.

    Every known sample is tested once; unknown samples are only ever tested. Fold sizes,
    overall and per class, differ by at most one. The share `protocol.validation` of
    each class is kept out of the training samples of a fold.

    Parameters
    ----------
    dataset, protocol, unknown
        See :func:`cut`.
    n_folds
        Number of folds, at least 2.
    unknowns
        "dealt": each unknown sample is tested in one fold; "shared": all of them in
        every fold.

    References
    ----------
    Class-imbalance paper (2024), section 4.1: two folds for each class draw.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> digits = datasets.load("digits")
    >>> [len(f.test) for f in folds(digits, protocols.holdout(digits, 6, 4), 2)]
    [899, 898]
    """
    caller = "folds"
    _check_kinds(caller, dataset, protocol)
    n_folds = _check.positive_int(caller, "n_folds", n_folds)
    if n_folds < 2:
        got = n_folds
        raise ValueError(_check.must(">= 2", caller=caller, name="n_folds", got=got))
    _check.one_of(caller, "unknowns", unknowns, UNKNOWNS)
    if protocol.negative or protocol.surrogate:
        msg = (
            "folds: protocol must have known and unknown classes only, got "
            f"{protocol!r}. Use cut for validation and surrogate parts"
        )
        raise ValueError(msg)
    sets = _sets(caller, dataset, protocol, {"unknown": unknown})
    known = _pool(caller, protocol, "known", dataset, _ALL)
    strange = _pool(caller, protocol, "unknown", sets["unknown"], _ALL)
    few = np.bincount(known.strata).argmin()
    if np.bincount(known.strata)[few] < n_folds:
        n = int(np.bincount(known.strata)[few])
        msg = (
            f"folds: each known class must have at least n_folds = {n_folds} samples, "
            f"got {n} of class {protocol.known[few]!r}"
        )
        raise ValueError(msg)
    stream = Stream(caller, protocol.seed)
    bins = deal(np.concatenate([known.strata, strange.strata]), n_folds, stream)
    of_known, of_strange = np.split(bins, [known.rows.size])
    names = tuple(dataset.classes[dataset.number(c)] for c in protocol.known)
    made = []
    for i in range(n_folds):
        shown = (of_strange == i) | (unknowns == "shared")
        _some_unknown(caller, shown, n_folds)
        test = _samples(caller, names, known.take(of_known == i), strange.take(shown))
        train, validation = known.take(of_known != i), None
        if protocol.validation:
            is_held = take_share(train.strata, protocol.validation, stream)
            train, held = train.take(~is_held), train.take(is_held)
            _all_there(caller, protocol, "known", train, "train")
            _all_there(caller, protocol, "known", held, "validation")
            validation = _samples(caller, names, held)
        made.append(
            Cut(
                protocol=protocol,
                train=_samples(caller, names, train),
                validation=validation,
                tests=(test,),
            )
        )
    return tuple(made)


def _check_kinds(caller: str, dataset: Any, protocol: Any) -> None:
    rule, remedy = "a Dataset", "Load it with datasets.load(name)"
    _check.instance(caller, "dataset", dataset, Dataset, rule=rule, remedy=remedy)
    rule, remedy = "a Protocol", "Several draws are cut one by one: draws[0]"
    _check.instance(caller, "protocol", protocol, Protocol, rule=rule, remedy=remedy)


def _sets(
    caller: str,
    dataset: Dataset,
    protocol: Protocol,
    others: dict[str, Dataset | None],
) -> dict[str, Dataset]:
    """Return the data set of each part; it must be the one the protocol names."""
    _same_labels(caller, "dataset", dataset, protocol.source)
    found = {}
    for part, other in others.items():
        source = protocol.source_of(part)
        if source == protocol.source:
            if other is not None:
                msg = (
                    f"{caller}: {part}= must be left out: the protocol takes {part} "
                    "classes from the known data set, got "
                    f"{other.name or 'another data set'}"
                )
                raise ValueError(msg)
            found[part] = dataset
            continue
        if other is None:
            if not getattr(protocol, part):
                continue
            msg = (
                f"{caller}: {part}= must be the data set {source!r}, which the "
                f"protocol takes {part} classes from, got none. Pass "
                f"{part}=datasets.load({source!r})"
            )
            raise ValueError(msg)
        _same_labels(caller, part, other, source)
        if other.kind != dataset.kind:
            msg = (
                f"{caller}: {part} must be of kind {dataset.kind!r} like the known "
                f"data set, got {other.kind!r}"
            )
            raise ValueError(msg)
        found[part] = other
    _need_other_names(caller, protocol, {"known": dataset, **found})
    return found


def _need_other_names(
    caller: str, protocol: Protocol, sets: dict[str, Dataset]
) -> None:
    """Refuse two data sets of one name: ids would say that their rows are the same."""
    for (one, a), (other, b) in combinations(sets.items(), 2):
        # Loaded twice, it is the same one.
        is_same = a is b or (
            protocol.source_of(one) == protocol.source_of(other)
            and np.array_equal(a.labels, b.labels)
        )
        if a.name == b.name and not is_same:
            msg = (
                f"{caller}: {one} and {other} must have different names, got "
                f"{a.name!r} twice. Ids of samples begin with it: "
                "from_arrays(..., name='...')"
            )
            raise ValueError(msg)


def _same_labels(caller: str, name: str, dataset: Dataset, source: str) -> None:
    # Protocols drawn from lists of classes name no data set: nothing to compare.
    is_free = source in ("", "known set", "unknown set") or not dataset.label_set
    if not is_free and dataset.label_set != source:
        msg = (
            f"{caller}: {name} must be {source!r}, whose classes the protocol "
            f"names, got {dataset.label_set!r}. If its classes have the same "
            f"numbers, use dataclasses.replace(dataset, label_set={source!r})"
        )
        raise ValueError(msg)


def _pool(
    caller: str, protocol: Protocol, role: str, dataset: Dataset, part: str
) -> _Pool:
    """Return the rows of a role's classes; known classes are numbered first."""
    rows = dataset.parts.get(part, np.arange(len(dataset)))
    classes = getattr(protocol, role)
    numbers = [dataset.number(c, caller=caller) for c in classes]
    if len(set(numbers)) < len(numbers):
        msg = f"{caller}: {role} classes must be different, got one by name and number"
        raise ValueError(msg)
    _disjoint_after_naming(caller, protocol, role, dataset, set(numbers))
    # One table look-up for all samples; the last place is for the label -1.
    place = np.full(len(dataset.classes) + 1, -1, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    strata = place[dataset.labels[rows]]
    offset = 0 if role == "known" else protocol.n_known
    is_in = strata >= 0
    pool = _Pool(dataset, rows[is_in], strata[is_in] + offset)
    _all_there(caller, protocol, role, pool, part)
    return pool


def _disjoint_after_naming(
    caller: str, protocol: Protocol, role: str, dataset: Dataset, numbers: set[int]
) -> None:
    """Refuse a class that is given by name in one part and by number in another."""
    if role == "known" or protocol.source_of(role) != protocol.source:
        return
    known = {dataset.number(c, caller=caller) for c in protocol.known}
    if known & numbers:
        both = dataset.classes[min(known & numbers)]
        msg = f"{caller}: known and {role} must be disjoint, got {both!r} in both"
        raise ValueError(msg)


def _all_there(
    caller: str, protocol: Protocol, role: str, pool: _Pool, part: str
) -> None:
    classes = getattr(protocol, role)
    offset = 0 if role == "known" else protocol.n_known
    counts = np.bincount(pool.strata - offset, minlength=len(classes))
    empty = [repr(classes[i]) for i in np.flatnonzero(counts == 0)[:5]]
    if empty:
        where = f" in its {part} part" if part in pool.dataset.parts else ""
        msg = (
            f"{caller}: every {role} class must have samples, got none{where} of "
            f"{', '.join(empty)} ({pool.dataset.name or 'data set'})"
        )
        raise ValueError(msg)


def _test_splits(
    known: _Pool, strange: _Pool, protocol: Protocol, stream: Stream
) -> list[tuple[_Pool, _Pool]]:
    n = protocol.n_tests
    if n == 1:
        return [(known, strange)]
    bins = deal(np.concatenate([known.strata, strange.strata]), n, stream)
    of_known, of_strange = np.split(bins, [known.rows.size])
    splits = []
    for i in range(n):
        if not (of_known == i).any():
            msg = (
                f"cut: n_tests must be at most {known.rows.size}, the number of known "
                f"test samples, got {n}"
            )
            raise ValueError(msg)
        shown = (of_strange == i) | (protocol.unknowns == "shared")
        _some_unknown("cut", shown, n)
        splits.append((known.take(of_known == i), strange.take(shown)))
    return splits


def _some_unknown(caller: str, shown: NDArray[np.bool_], n: int) -> None:
    if not shown.any():
        msg = (
            f"{caller}: each of the {n} test parts must have unknown samples, got "
            f"{shown.size} in all. Use fewer parts or unknowns='shared'"
        )
        raise ValueError(msg)


def _samples(
    caller: str,
    classes: tuple[str, ...],
    known: _Pool | None,
    other: _Pool | None = None,
) -> Samples:
    """Gather known samples (labels 0..K-1) and others (label -1)."""
    labels, groups, pools = [], [], []
    for pool, is_known in ((known, True), (other, False)):
        if pool is None:
            continue
        pools.append(pool)
        labels.append(pool.strata if is_known else np.full(pool.rows.size, UNKNOWN))
        # Index -1 is the last name: the data set's name for samples of no class.
        names = np.array([*pool.dataset.classes, pool.dataset.unlisted], dtype=np.str_)
        groups.append(names[pool.dataset.labels[pool.rows]])
    return Samples(
        inputs=lazy_inputs.join(
            caller, [lazy_inputs.take(pool.dataset.inputs, pool.rows) for pool in pools]
        ),
        labels=_check.read_only(np.concatenate(labels)),
        groups=_check.read_only(np.concatenate(groups)),
        classes=classes,
        kind=pools[0].dataset.kind,
        sources=tuple((pool.dataset.name, pool.rows) for pool in pools),
    )
