"""`Samples` of one part, and `Cut`: all parts of a data set under a protocol."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset._types import UNKNOWN
from openset.datasets import lazy_inputs
from openset.protocols import Protocol

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """One part of a cut: inputs, labels ``0..K-1`` or -1, and the original classes.

    `groups` holds the class name of each sample in its own data set; for unknown
    samples it tells where they come from.
    """

    inputs: Any
    labels: NDArray[np.int64]
    groups: NDArray[np.str_]
    classes: tuple[str, ...]
    kind: str
    sources: tuple[tuple[str, Rows], ...]

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
        # Map rows of the joined samples to rows of their data sets.
        taken, first = [], 0
        for name, of_set in self.sources:
            mine = rows[(rows >= first) & (rows < first + of_set.size)] - first
            taken.append((name, of_set[mine]))
            first += of_set.size
        return replace(
            self,
            inputs=lazy_inputs.take(self.inputs, rows),
            labels=self.labels[rows],
            groups=self.groups[rows],
            sources=tuple(taken),
        )

    @property
    def ids(self) -> NDArray[np.str_]:
        """Id of each sample, ``dataset/row``: equal ids are the same sample."""
        return np.concatenate(
            [
                np.char.add(f"{name}/", rows.astype(np.str_))
                for name, rows in self.sources
            ]
        )


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
            msg = (
                f"Cut.test: the protocol has {len(self.tests)} test splits; use tests, "
                "and report the spread"
            )
            raise AttributeError(msg)
        return self.tests[0]

    def __repr__(self) -> str:
        shown = [f"train={len(self.train)}"]
        for part in ("validation", "negative", "surrogate"):
            samples = getattr(self, part)
            if samples is not None:
                shown.append(f"{part}={len(samples)}")
        shown.append("test=" + "+".join(str(len(test)) for test in self.tests))
        return f"Cut({', '.join(shown)})"
