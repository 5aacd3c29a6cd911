"""Cuts a data set into the parts of a protocol, or into folds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.datasets import lazy_inputs
from openset.datasets.dataset import Dataset
from openset.datasets.negatives import need_no_copies
from openset.protocols import Protocol
from openset.protocols.classes import few
from openset.protocols.sampling import UNKNOWNS, Stream, deal, take_share

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """One part of a cut: inputs, labels ``0..K-1`` or -1, and the original classes.

    `groups` holds the class name of each sample in its own data set; for unknown
    samples it tells where they come from. `sets` are the names of the data sets;
    `origin` says of which of them each sample is, and `rows` its row there.
    """

    inputs: Any
    labels: NDArray[np.int64]
    groups: NDArray[np.str_]
    classes: tuple[str, ...]
    kind: str
    sets: tuple[str, ...]
    origin: Rows
    rows: Rows

    def __len__(self) -> int:
        return self.labels.size

    def __repr__(self) -> str:
        n_unknown = int((self.labels == UNKNOWN).sum())
        known = f"known={len(self) - n_unknown}, unknown={n_unknown}"
        return f"Samples({self.kind}, {known}, classes={len(self.classes)})"

    def at_most(self, n: int | None, *, seed: int) -> Self:
        """Return `n` random samples in their order; all if there are no more."""
        if n is None or n >= len(self):
            return self
        rows = np.sort(np.random.default_rng(seed).choice(len(self), n, replace=False))
        names = ("labels", "groups", "origin", "rows")
        taken = {name: getattr(self, name)[rows] for name in names}
        return replace(self, inputs=lazy_inputs.take(self.inputs, rows), **taken)

    @property
    def ids(self) -> NDArray[np.str_]:
        """Id of each sample, ``dataset/row``: equal ids are the same sample."""
        names = np.array([f"{name}/" for name in self.sets])
        return np.char.add(names[self.origin], self.rows.astype(np.str_))


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut:
    """A data set divided into the parts of a protocol.

    `validation`, `negative` and `surrogate` are None where the protocol has none.
    """

    protocol: Protocol
    train: Samples
    tests: tuple[Samples, ...]
    validation: Samples | None = None
    negative: Samples | None = None
    surrogate: Samples | None = None

    @property
    def test(self) -> Samples:
        """The test part, if there is only one; with several splits, see `tests`."""
        if len(self.tests) > 1:
            msg = f"Cut.test: there are {len(self.tests)} test splits; use Cut.tests"
            raise AttributeError(msg)
        return self.tests[0]

    def __repr__(self) -> str:
        names = ("train", "validation", "negative", "surrogate")
        found = {name: getattr(self, name) for name in names}
        shown = [f"{name}={len(one)}" for name, one in found.items() if one is not None]
        shown.append("test=" + "+".join(str(len(test)) for test in self.tests))
        return f"Cut({', '.join(shown)})"


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
    others = {"unknown": unknown, "negative": negative, "surrogate": surrogate}
    table = _Table("cut", dataset, protocol, others)
    if missing := [part for part in ("train", "test") if part not in dataset.parts]:
        have = ", ".join(dataset.parts) or "no parts"
        remedy = "Draw parts with dataset.with_parts(test=0.3), or use datasets.folds"
        rule = f"with a {missing[0]} part"
        _check.fail("cut", dataset.name or "the data set", rule, have, remedy)
    stream = Stream("cut", protocol.seed)
    train, validation = table.held_out(table.pool("known", "train"), stream)
    if validation is None and "validation" in dataset.parts:
        validation = table.pool("known", "validation")
    parts = {"train": train, "validation": validation}
    known, strange = table.pool("known", "test"), table.pool("unknown", "test")
    for part in ("negative", "surrogate"):
        if getattr(protocol, part):
            pool = parts[part] = table.pool(part, "train")
            a, b = pool.dataset.inputs, strange.dataset.inputs
            need_no_copies(part, a, pool.rows, tested=b, tested_rows=strange.rows)
    deals = table.deal(known, strange, protocol.n_tests, protocol.unknowns, stream)
    tests = [(known.take(a), strange.take(b)) for a, b in deals]
    return table.cut(parts, tests)


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
    table = _Table(caller, dataset, protocol, {"unknown": unknown})
    n_folds = _check.integer(caller, "n_folds", n_folds, low=2)
    _check.one_of(caller, "unknowns", unknowns, UNKNOWNS)
    if protocol.negative or protocol.surrogate:
        remedy = "Use cut for validation and surrogate parts"
        rule = "of known and unknown classes only"
        _check.fail(caller, "protocol", rule, repr(protocol), remedy)
    known, strange = table.pool("known"), table.pool("unknown")
    stream = Stream(caller, protocol.seed)
    made = []
    for tested, shown in table.deal(known, strange, n_folds, unknowns, stream):
        train, validation = table.held_out(known.take(~tested), stream)
        parts = {"train": train, "validation": validation}
        made.append(table.cut(parts, [(known.take(tested), strange.take(shown))]))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class _Pool:
    """Rows of one data set that belong to one part, and the class number of each.

    Known classes are 0..K-1, in the order of the protocol; unknown ones follow.
    """

    dataset: Dataset
    rows: Rows
    strata: NDArray[np.int64]

    def take(self, mask: NDArray[np.bool_]) -> "_Pool":
        return _Pool(self.dataset, self.rows[mask], self.strata[mask])


class _Table:
    """A protocol and the data set of each part, which must fit."""

    def __init__(
        self, caller: str, dataset: Any, protocol: Any, others: dict[str, Any]
    ) -> None:
        rule, remedy = "a Dataset", "Load it with datasets.load(name)"
        _check.instance(caller, "dataset", dataset, Dataset, rule=rule, remedy=remedy)
        rule, remedy = "a Protocol", "Several draws are cut one by one: draws[0]"
        kind = Protocol
        _check.instance(caller, "protocol", protocol, kind, rule=rule, remedy=remedy)
        self.caller, self.protocol = caller, protocol
        self.sets: dict[str, Dataset] = {"known": dataset}
        self._need_labels("dataset", dataset, protocol.source)
        for part, other in others.items():
            source = protocol.source_of(part)
            if source == protocol.source:
                if other is not None:
                    rule = f"left out: the protocol takes {part} classes from the known"
                    got = other.name or "another data set"
                    _check.fail(caller, f"{part}=", f"{rule} data set", got)
                self.sets[part] = dataset
            elif other is not None:
                self._need_labels(part, other, source)
                if other.kind != dataset.kind:
                    rule = f"of kind {dataset.kind!r} like the known data set"
                    _check.fail(caller, part, rule, repr(other.kind))
                self.sets[part] = other
            elif getattr(protocol, part):
                rule = f"the data set {source!r}, which the protocol names"
                remedy = f"Pass {part}=datasets.load({source!r})"
                _check.fail(caller, f"{part}=", rule, "none", remedy)
        self._need_other_names()

    def _need_labels(self, name: str, dataset: Dataset, source: str) -> None:
        # Protocols drawn from lists of classes name no data set: nothing to compare.
        is_free = source in ("", "known set", "unknown set") or not dataset.label_set
        if not is_free and dataset.label_set != source:
            rule = f"{source!r}, whose classes the protocol names"
            remedy = (
                "If its classes have the same numbers, use "
                f"dataclasses.replace(dataset, label_set={source!r})"
            )
            _check.fail(self.caller, name, rule, repr(dataset.label_set), remedy)

    def _need_other_names(self) -> None:
        """Refuse two data sets of one name: ids would say their rows are the same."""
        for (one, a), (other, b) in combinations(self.sets.items(), 2):
            # Loaded twice, it is the same one.
            is_same = a is b or (
                self.protocol.source_of(one) == self.protocol.source_of(other)
                and np.array_equal(a.labels, b.labels)
            )
            if a.name == b.name and not is_same:
                remedy = "Ids of samples begin with it: from_arrays(..., name='...')"
                names, got = f"{one} and {other}", f"{a.name!r} twice"
                _check.fail(self.caller, names, "of different names", got, remedy)

    def pool(self, role: str, part: str = "") -> _Pool:
        """Return the rows of a role's classes in a part ("": in all samples)."""
        dataset, classes = self.sets[role], getattr(self.protocol, role)
        rows = dataset.parts.get(part, np.arange(len(dataset)))
        numbers = [dataset.number(c) for c in classes]
        is_beside_known = role != "known" and dataset is self.sets["known"]
        others = self.protocol.known if is_beside_known else ()
        every = [*numbers, *map(dataset.number, others)]
        if len(set(every)) < len(every):  # a class by its name and by its number
            got = next(dataset.classes[one] for one in every if every.count(one) > 1)
            rule = "different from each other and from the known ones"
            _check.fail(self.caller, f"{role} classes", rule, f"{got!r} twice")
        # One table look-up for all samples; the last place is for the label -1.
        place = np.full(len(dataset.classes) + 1, -1, dtype=np.int64)
        place[numbers] = np.arange(len(numbers))
        strata = place[dataset.labels[rows]]
        is_in = strata >= 0
        self._need_all(role, strata[is_in], dataset, part)
        offset = 0 if role == "known" else self.protocol.n_known
        return _Pool(dataset, rows[is_in], strata[is_in] + offset)

    def _need_all(self, role: str, strata: Rows, dataset: Dataset, part: str) -> None:
        classes = getattr(self.protocol, role)
        empty = np.flatnonzero(np.bincount(strata, minlength=len(classes)) == 0)
        if empty.size:
            where = f" in its {part} part" if part in dataset.parts else ""
            missing = few(classes[i] for i in empty)
            got = f"none{where} of {missing} ({dataset.name or 'data set'})"
            _check.fail(self.caller, f"samples of {role} classes", "in every one", got)

    def held_out(self, train: _Pool, stream: Stream) -> tuple[_Pool, _Pool | None]:
        """Keep the validation share out of the training samples."""
        held = np.zeros(train.rows.size, dtype=np.bool_)
        if self.protocol.validation:
            held = take_share(train.strata, self.protocol.validation, stream)
            self._need_all("known", train.strata[held], train.dataset, "validation")
        self._need_all("known", train.strata[~held], train.dataset, "train")
        return train.take(~held), train.take(held) if held.any() else None

    def deal(
        self, known: _Pool, strange: _Pool, n: int, unknowns: str, stream: Stream
    ) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Deal the samples into `n` test parts; yield masks of known and unknown."""
        bins = deal(np.concatenate([known.strata, strange.strata]), n, stream)
        of_known, of_strange = np.split(bins, [known.rows.size])
        for i in range(n):
            both = of_known == i, (of_strange == i) | (unknowns == "shared")
            for name, is_in in zip(("known", "unknown"), both, strict=True):
                if not is_in.any():
                    rule = f"enough for {n} test parts"
                    got = f"{is_in.size} {name} ones in all"
                    remedy = "Use fewer parts or unknowns='shared'"
                    _check.fail(self.caller, "samples", rule, got, remedy)
            yield both

    def cut(
        self, parts: dict[str, _Pool | None], tests: list[tuple[_Pool, _Pool]]
    ) -> Cut:
        """Gather the samples of each part."""
        made: dict[str, Any] = {
            part: self._samples(pool) for part, pool in parts.items() if pool
        }
        found = tuple(self._samples(*both) for both in tests)
        return Cut(protocol=self.protocol, tests=found, **made)

    def _samples(self, *pools: _Pool) -> Samples:
        """Gather known samples (labels 0..K-1) and others (label -1)."""
        inputs, labels, groups = [], [], []
        for pool in pools:
            inputs.append(lazy_inputs.take(pool.dataset.inputs, pool.rows))
            is_known = pool.strata < self.protocol.n_known
            labels.append(np.where(is_known, pool.strata, UNKNOWN))
            # Index -1 is the last name: the data set's name for samples of no class.
            names = np.array([*pool.dataset.classes, pool.dataset.unlisted], np.str_)
            groups.append(names[pool.dataset.labels[pool.rows]])
        known = self.sets["known"]
        return Samples(
            inputs=lazy_inputs.join(self.caller, inputs),
            labels=_check.read_only(np.concatenate(labels)),
            groups=_check.read_only(np.concatenate(groups)),
            classes=tuple(known.classes[known.number(c)] for c in self.protocol.known),
            kind=known.kind,
            sets=tuple(pool.dataset.name for pool in pools),
            origin=np.repeat(range(len(pools)), [pool.rows.size for pool in pools]),
            rows=_check.read_only(np.concatenate([pool.rows for pool in pools])),
        )
