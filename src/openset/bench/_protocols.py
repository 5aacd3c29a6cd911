"""The protocols of a study, and the samples they select from data sets."""

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from openset import _check, datasets, protocols
from openset.bench._study import (
    DATA_KEYS,
    Holdout,
    NamedClasses,
    Operational,
    Outlier,
    ProtocolEntry,
    ProtocolFile,
    PublishedSplits,
)
from openset.datasets import Cut, Dataset, Samples
from openset.protocols import Protocol

_OTHER_NAME = "If these are two data sets, give their files different names"


def n_repeats(entry: ProtocolEntry, base: Path) -> int:
    """Return the number of repeats, draws times folds, without reading data."""
    return _n_draws(entry, base) * entry.folds


def _n_draws(entry: ProtocolEntry, base: Path) -> int:
    if isinstance(entry, PublishedSplits):
        every = entry.splits == "all"
        return len(protocols.splits(entry.split_of) if every else entry.splits)
    if isinstance(entry, ProtocolFile):
        return len(_filed(entry, base))
    return 1 if isinstance(entry, NamedClasses) else entry.repeats


def n_tests(entry: ProtocolEntry, base: Path) -> list[int]:
    """Return the number of test splits of each repeat, without reading data."""
    if isinstance(entry, ProtocolFile) and entry.folds == 1:
        return [protocol.n_tests for protocol in _filed(entry, base)]
    n = entry.n_tests if isinstance(entry, Operational) else 1
    return [n] * n_repeats(entry, base)


def draw(entry: ProtocolEntry, base: Path, root: Path) -> list[Protocol]:
    """Return the protocols of an entry, one per draw, named after it."""
    found = [
        replace(
            protocol,
            name=f"{entry.title}/{i}",
            validation=entry.validation or protocol.validation,
        )
        for i, protocol in enumerate(_drawn(entry, base, root))
    ]
    for protocol in found:
        sources(entry, protocol)  # refuses other data that would not be read
    if isinstance(entry, NamedClasses):
        return [replace(found[0], name=entry.title)]
    return found


def _drawn(entry: ProtocolEntry, base: Path, root: Path) -> list[Protocol]:
    if isinstance(entry, PublishedSplits):
        every = entry.splits == "all"
        splits = protocols.splits(entry.split_of) if every else entry.splits
        return [protocols.published(entry.split_of, split) for split in splits]
    if isinstance(entry, ProtocolFile):
        return _filed(entry, base)
    data = _load(entry.data, base, root)
    if isinstance(entry, NamedClasses):
        return [_named(entry, data, base, root)]
    if isinstance(entry, Holdout):
        sizes = (entry.known, entry.unknown)
        drawn = protocols.holdout(data, *sizes, entry.repeats, entry.rng)
    elif isinstance(entry, Outlier):
        other = _load(entry.unknown_data, base, root)
        # Omniglot has different classes for training and test: draw from the test
        # classes.
        pool = SimpleNamespace(classes=_tested(other), label_set=other.label_set)
        drawn = protocols.outlier(
            data,
            pool,
            entry.known,
            entry.unknown,
            repeats=entry.repeats,
            rng=entry.rng,
        )
    else:
        drawn = protocols.operational(
            data,
            entry.known,
            entry.surrogate,
            entry.unknown,
            repeats=entry.repeats,
            rng=entry.rng,
            validation=entry.validation,
            n_tests=entry.n_tests,
            unknowns=entry.unknowns,
        )
    return list(drawn)


def _tested(data: Dataset) -> list[str]:
    """Names of the classes that occur in the test part."""
    rows = data.parts.get("test", np.arange(len(data)))
    found = np.unique(data.labels[rows])
    return [data.classes[i] for i in found[found >= 0]]


def _named(entry: NamedClasses, data: Dataset, base: Path, root: Path) -> Protocol:
    other = _load(entry.unknown_data, base, root) if entry.unknown_data else data
    is_one = other is data
    known, unknown = entry.known, entry.unknown
    if known == "all":
        taken = _numbers(data, [*entry.surrogate, *(unknown if is_one else [])])
        known = [c for i, c in enumerate(data.classes) if i not in taken]
    if unknown == "all":
        taken = _numbers(data, [*entry.surrogate, *known]) if is_one else set()
        unknown = [c for c in _tested(other) if other.number(c) not in taken]
    return Protocol(
        known=tuple(known),
        unknown=tuple(unknown),
        surrogate=tuple(entry.surrogate),
        source=data.label_set,
        unknown_source=other.label_set if other is not data else "",
        seed=entry.rng,
    )


def _numbers(data: Dataset, classes: Iterable[int | str]) -> set[int]:
    return {data.number(c) for c in classes}


def has_negatives(entry: ProtocolEntry, base: Path) -> set[bool]:
    """Return whether protocols of an entry have negative classes: one, other, or both.

    No data are read: only published protocols and those in files can have any.
    """
    if not isinstance(entry, PublishedSplits | ProtocolFile):
        return {False}
    return {bool(protocol.negative) for protocol in _drawn(entry, base, base)}


def _filed(entry: ProtocolFile, base: Path) -> list[Protocol]:
    found = protocols.load(base / entry.path)
    return [found] if isinstance(found, Protocol) else list(found)


def sources(entry: ProtocolEntry, protocol: Protocol) -> dict[str, str]:
    """Return the data set of the known classes and those of the other parts."""
    names = {"known": getattr(entry, "data", "") or protocol.source}
    for part in ("unknown", "negative", "surrogate"):
        given = getattr(entry, f"{part}_data", "")
        source = protocol.source_of(part)
        if not getattr(protocol, part):
            continue
        if source != protocol.source:
            names[part] = given or source
        elif given not in ("", names["known"]):
            rule = f"left out: the {part} classes are classes of {names['known']}"
            remedy = _OTHER_NAME if entry.kind == "classes" else ""
            name = f"{part}_data"
            msg = _check.must(rule, caller="bench", name=name, got=given, remedy=remedy)
            raise ValueError(msg)
    return names


def cut(
    entry: ProtocolEntry,
    protocol: Protocol,
    base: Path,
    root: Path,
    *,
    fold: int | None = None,
    negatives: str = "",
) -> Cut:
    """Return the samples of one protocol, limited to the number the entry allows.

    The test part is whole; :func:`test_splits` divides it. With folds, the official
    parts are merged and divided anew; `fold` is the one that is tested. `negatives` is
    a data set of negatives, besides those of the entry.
    """
    sets = _sets(entry, protocol, base, root)
    known = sets.pop("known")
    if negatives:
        other = _load(negatives, base, root)
        if other.label_set and other.label_set == known.label_set:
            _check.need_same_file(
                base / negatives,
                base / sources(entry, protocol)["known"],
                caller="bench",
            )
            other = known
        protocol = datasets.with_negatives(protocol, known, other)
        sets |= {} if other is known else {"negative": other}
    if fold is None:
        whole = datasets.cut(known, replace(protocol, n_tests=1), **sets)
    else:
        n, unknowns = entry.folds, entry.unknowns
        whole = datasets.folds(known, protocol, n, unknowns=unknowns, **sets)[fold]
    train = whole.train.at_most(entry.max_train, seed=protocol.seed)
    missing = set(train.classes) - {train.classes[i] for i in np.unique(train.labels)}
    if missing:
        msg = _check.must(
            "enough for a sample of each known class",
            caller="bench",
            name="max_train",
            got=f"{entry.max_train}, which leaves none of {len(missing)} of "
            f"{len(train.classes)}",
        )
        raise ValueError(msg)
    return replace(
        whole,
        train=train,
        tests=tuple(
            test.at_most(entry.max_test, seed=protocol.seed) for test in whole.tests
        ),
    )


def test_splits(
    entry: ProtocolEntry, protocol: Protocol, base: Path, root: Path
) -> tuple[Samples, ...]:
    """Return the test splits of one protocol."""
    sets = _sets(entry, protocol, base, root)
    return datasets.cut(sets.pop("known"), protocol, **sets).tests


def _sets(
    entry: ProtocolEntry, protocol: Protocol, base: Path, root: Path
) -> dict[str, Dataset]:
    names = sources(entry, protocol)
    # A protocol may come from a file, which must not decide what code is imported.
    given = {getattr(entry, key, "") for key in DATA_KEYS}
    sets = {
        part: _load(name, base, root, imports=name in given)
        for part, name in names.items()
    }
    if not sets["known"].parts:  # a folder of classes: as `openset train` does
        sets["known"] = sets["known"].with_parts(test=0.3, rng=0)
    return sets


def _load(name: str, base: Path, root: Path, *, imports: bool = True) -> Dataset:
    if datasets.is_name(name):
        return _loaded(name, str(root), imports, ())
    return _loaded(str(base / name), str(root), imports, _times(base / name))


def _times(path: Path) -> tuple[int, ...]:
    """Return when a file, or any folder in a folder, was last changed."""
    if not path.is_dir():
        return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else ()
    return tuple(Path(one).stat().st_mtime_ns for one, *_ in os.walk(path))


# A worker uses the same data sets again and again; a protocol joins at most four.
# Images in files are read anew every time: of a folder, only the list is kept.
@lru_cache(maxsize=4)
def _loaded(
    name: str,
    root: str,
    imports: bool,  # noqa: FBT001  # a key
    times: tuple[int, ...],
) -> Dataset:
    del times  # part of the key: a file that was changed is read again
    return datasets.load(name, root, imports=imports)
