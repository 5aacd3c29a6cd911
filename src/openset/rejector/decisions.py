"""The decisions of a rejector, and what it says of them: columns, rows and files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _io, _npz
from openset._types import UNKNOWN
from openset.outputs import Outputs
from openset.scores import Scores
from openset.stats.tables import csv_text
from openset.thresholds import Threshold


@dataclass(frozen=True, eq=False, kw_only=True)
class Decisions:
    """Decisions about samples, and what they are based on.

    A sample is accepted, rejected as unknown, or invalid: with NaN, or of a class that
    is not determined (``invalid="reject"`` of :meth:`openset.Rejector.decide`).

    Attributes
    ----------
    labels
        Class of each accepted sample; -1 for rejected and for invalid ones.
    predicted
        Class before rejection; -1 for invalid samples.
    known
        Knownness; NaN for invalid samples.
    is_invalid
        Mask of the invalid samples.
    sets
        Mask of the classes in the prediction set of each sample, shape (n, C), with no
        class for rejected and invalid ones; None if the rejector was calibrated without
        sets.
    """

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    known: NDArray[np.float64]
    is_invalid: NDArray[np.bool_]
    sets: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return self.labels.size

    def __repr__(self) -> str:
        counts = f"rejected={self.n_rejected}, invalid={self.n_invalid}"
        n_accepted = len(self) - self.n_rejected - self.n_invalid
        return f"Decisions(n={len(self)}, accepted={n_accepted}, {counts})"

    @property
    def n_invalid(self) -> int:
        """Number of invalid samples."""
        return int(np.count_nonzero(self.is_invalid))

    @property
    def is_rejected(self) -> NDArray[np.bool_]:
        """Mask of samples rejected as unknown; invalid ones are not among them."""
        return (self.labels == UNKNOWN) & ~self.is_invalid

    @property
    def n_rejected(self) -> int:
        """Number of samples rejected as unknown."""
        return int(np.count_nonzero(self.is_rejected))

    @property
    def set_classes(self) -> list[list[int]] | None:
        """The classes of each prediction set; None without sets."""
        if self.sets is None:
            return None
        return [np.flatnonzero(row).tolist() for row in self.sets]

    def scores(self, labels: ArrayLike | None = None) -> Scores:
        """Return the scores of the valid samples; without labels, they are unknown."""
        valid = ~self.is_invalid
        true = np.full(len(self), UNKNOWN) if labels is None else np.asarray(labels)
        return Scores(
            labels=true[valid], predicted=self.predicted[valid], known=self.known[valid]
        )


class Tables:
    """Decisions as tables, the part of a rejector that writes answers."""

    threshold: Threshold
    classes: tuple[str, ...]

    def margins(self, scores: Scores | Decisions) -> NDArray[np.float64]:
        """Return knownness minus threshold; a sample is accepted iff it is >= 0.

        Invalid samples of decisions have none: NaN.
        """
        threshold = self.threshold.value
        same = scores.known == threshold  # inf - inf is NaN
        with np.errstate(invalid="ignore"):
            return np.where(same, 0.0, scores.known - threshold)

    def columns(self, decisions: Decisions, outputs: Outputs) -> dict[str, Any]:
        """Return decisions as columns, the same in every file, table and answer.

        They are `decision` (class or -1), `name`, `predicted` (class before rejection),
        `known`, `margin` and `invalid`; `group` and `id` of the outputs, if they have
        any; and, with prediction sets, `set`, a mask of samples by classes.
        """
        n_classes = max(int(decisions.labels.max(initial=0)) + 1, len(self.classes))
        names = [self.name_of(label) for label in (*range(n_classes), UNKNOWN)]
        columns = {
            "decision": decisions.labels,
            "name": np.array(names)[decisions.labels],
            "predicted": decisions.predicted,
            "known": decisions.known,
            "margin": self.margins(decisions),
            "invalid": decisions.is_invalid,
            "group": outputs.groups,
            "id": outputs.ids,
            "set": decisions.sets,
        }
        return {name: one for name, one in columns.items() if one is not None}

    def rows(self, decisions: Decisions, outputs: Outputs) -> list[dict[str, Any]]:
        """Return one plain record per sample: the columns, NaN as None, sets by name.

        Examples
        --------
        >>> from openset import Rejector, detectors
        >>> known = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
        >>> rejector = Rejector.calibrate(
        ...     detectors.MaxLogit().fit(), known=known, objective="at_tpr"
        ... )
        >>> new = Outputs(logits=[[0.0, 5.0]], ids=["a.png"])
        >>> rejector.rows(rejector.decide(new), new)
        [{'decision': 1, 'name': '1', 'predicted': 1, 'known': 5.0, 'margin': 1.0, \
'invalid': False, 'id': 'a.png'}]
        """
        lists = {k: a.tolist() for k, a in self.columns(decisions, outputs).items()}
        for name in ("known", "margin"):
            lists[name] = [None if one != one else one for one in lists[name]]  # noqa: PLR0124  # NaN
        if decisions.set_classes is not None:
            named = [[self.name_of(c) for c in one] for one in decisions.set_classes]
            lists["set"] = named
        each = zip(*lists.values(), strict=True)
        return [dict(zip(lists, row, strict=True)) for row in each]

    def save_decisions(
        self, path: str | Path, decisions: Decisions, outputs: Outputs
    ) -> Path:
        """Write decisions as ``.npz`` (the columns), or as ``.csv``: the rows.

        The text is safe to open in a spreadsheet; sets are written as ``a|b``.
        """
        path = Path(path)
        _check.ending("Rejector.save_decisions", path, [".csv", ".npz"])
        if path.suffix == ".npz":
            _npz.save(path, self.columns(decisions, outputs))
            return path
        records = []
        for i, row in enumerate(self.rows(decisions, outputs)):
            cells = {n: "nan" if cell is None else cell for n, cell in row.items()}
            if "set" in row:
                cells["set"] = "|".join(row["set"])
            records.append({"row": i, **cells})
        _io.put(path, csv_text(records))
        return path

    def name_of(self, label: int) -> str:
        """Return the name of a class; "unknown" for -1.

        A class that is itself called "unknown" is "unknown (class 3)", as it must not
        be taken for a rejected sample.
        """
        if label == UNKNOWN:
            return "unknown"
        name = self.classes[label] if label < len(self.classes) else str(label)
        return f"unknown (class {label})" if name == "unknown" else name
