"""`Samples` of one part, and `Cut`: all parts of a data set under a protocol."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset._types import UNKNOWN
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
    """The parts a protocol makes of a data set.

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
        """The test part, where there is one; with several splits, see `tests`."""
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
