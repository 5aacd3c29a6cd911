"""The protocols of a study, and the samples they cut out of data sets."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from openset import datasets, protocols
from openset.bench._study import (
    Filed,
    Holdout,
    Named,
    Outlier,
    Problem,
    Published,
)
from openset.datasets import Cut, Dataset, Samples
from openset.protocols import Protocol


def n_repeats(problem: Problem, base: Path) -> int:
    """Return how many protocols a problem stands for, without looking at data."""
    if isinstance(problem, Published):
        every = problem.splits == "all"
        return len(protocols.splits(problem.split_of) if every else problem.splits)
    if isinstance(problem, Filed):
        return len(_filed(problem, base))
    return 1 if isinstance(problem, Named) else problem.repeats


def draw(problem: Problem, base: Path, root: Path) -> list[Protocol]:
    """Return the protocols of a problem, one per repeat, named after it."""
    found = [
        replace(
            protocol,
            name=f"{problem.title}/{i}",
            validation=problem.validation or protocol.validation,
        )
        for i, protocol in enumerate(_drawn(problem, base, root))
    ]
    if isinstance(problem, Named):
        return [replace(found[0], name=problem.title)]
    return found


def _drawn(problem: Problem, base: Path, root: Path) -> list[Protocol]:
    if isinstance(problem, Published):
        every = problem.splits == "all"
        splits = protocols.splits(problem.split_of) if every else problem.splits
        return [protocols.published(problem.split_of, split) for split in splits]
    if isinstance(problem, Filed):
        return _filed(problem, base)
    data = _load(problem.data, base, root)
    if isinstance(problem, Named):
        return [_named(problem, data, base, root)]
    if isinstance(problem, Holdout):
        sizes = (problem.known, problem.unknown)
        drawn = protocols.holdout(data, *sizes, problem.repeats, problem.rng)
    elif isinstance(problem, Outlier):
        other = _load(problem.unknown_data, base, root)
        # Omniglot's test classes are not its training classes: draw what can be tested.
        pool = SimpleNamespace(classes=_tested(other), label_set=other.label_set)
        drawn = protocols.outlier(
            data,
            pool,
            problem.known,
            problem.unknown,
            repeats=problem.repeats,
            rng=problem.rng,
        )
    else:
        drawn = protocols.operational(
            data,
            problem.known,
            problem.surrogate,
            problem.unknown,
            repeats=problem.repeats,
            rng=problem.rng,
            validation=problem.validation,
            n_tests=1,
        )
    return list(drawn)


def _tested(data: Dataset) -> list[str]:
    """Names of the classes that occur in the test part."""
    rows = data.parts.get("test", np.arange(len(data)))
    found = np.unique(data.labels[rows])
    return [data.classes[i] for i in found[found >= 0]]


def _named(problem: Named, data: Dataset, base: Path, root: Path) -> Protocol:
    other = _load(problem.unknown_data, base, root) if problem.unknown_data else data
    is_one = other is data
    known, unknown = problem.known, problem.unknown
    if known == "all":
        taken = _numbers(data, [*problem.surrogate, *(unknown if is_one else [])])
        known = [c for i, c in enumerate(data.classes) if i not in taken]
    if unknown == "all":
        taken = _numbers(data, [*problem.surrogate, *known]) if is_one else set()
        unknown = [c for c in _tested(other) if other.number(c) not in taken]
    return Protocol(
        known=tuple(known),
        unknown=tuple(unknown),
        surrogate=tuple(problem.surrogate),
        source=data.label_set,
        unknown_source=other.label_set if other is not data else "",
        seed=problem.rng,
    )


def _numbers(data: Dataset, classes: Iterable[int | str]) -> set[int]:
    return {data.number(c, caller="bench") for c in classes}


def _filed(problem: Filed, base: Path) -> list[Protocol]:
    found = protocols.load(base / problem.path)
    return [found] if isinstance(found, Protocol) else list(found)


def sources(problem: Problem, protocol: Protocol) -> dict[str, str]:
    """Return the data set of the known classes and those of the other parts."""
    names = {"known": getattr(problem, "data", "") or protocol.source}
    for part in ("unknown", "negative", "surrogate"):
        given = getattr(problem, f"{part}_data", "")
        source = protocol.source_of(part)
        if getattr(protocol, part) and source != protocol.source:
            names[part] = given or source
    return names


def cut(problem: Problem, protocol: Protocol, base: Path, root: Path) -> Cut:
    """Return the samples of one protocol, at most as many as the problem allows."""
    names = sources(problem, protocol)
    sets = {part: _load(name, base, root) for part, name in names.items()}
    whole = datasets.cut(sets.pop("known"), replace(protocol, n_tests=1), **sets)
    return replace(
        whole,
        train=_at_most(whole.train, problem.max_train, protocol.seed),
        tests=tuple(
            _at_most(test, problem.max_test, protocol.seed) for test in whole.tests
        ),
    )


def _at_most(samples: Samples, n: int | None, seed: int) -> Samples:
    """Draw `n` samples, in order; all of them if there are no more."""
    if n is None or n >= len(samples):
        return samples
    rows = np.sort(np.random.default_rng(seed).choice(len(samples), n, replace=False))
    # Rows of the joined samples back to rows of each data set they come from.
    taken, first = [], 0
    for name, of_set in samples.sources:
        mine = rows[(rows >= first) & (rows < first + of_set.size)] - first
        taken.append((name, of_set[mine]))
        first += of_set.size
    return replace(
        samples,
        inputs=samples.inputs[rows],
        labels=samples.labels[rows],
        groups=samples.groups[rows],
        sources=tuple(taken),
    )


def _load(name: str, base: Path, root: Path) -> Dataset:
    is_path = name not in datasets.REGISTRY and not name.startswith("hf:")
    return _loaded(str(base / name) if is_path else name, str(root))


# A worker meets the same data set again and again; three are what a protocol joins.
@lru_cache(maxsize=3)
def _loaded(name: str, root: str) -> Dataset:
    return datasets.load(name, root)
