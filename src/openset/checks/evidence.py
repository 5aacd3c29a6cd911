"""`Evidence`: the parts of an evaluation that the checks use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, metrics
from openset.datasets import Cut
from openset.metrics import Metric
from openset.protocols import Protocol
from openset.results import Result, Results
from openset.scores import Scores, need_scores
from openset.thresholds import Fingerprint, Threshold

T = TypeVar("T")

TUNED_ON: tuple[str, ...] = ("defaults", "published", "n_known", "train", "validation")
TUNED_ON += ("negative", "surrogate", "openness", "test", "test unknowns")
"""What hyper-parameters may have been chosen on; OSR011 reports the last three."""

ONLY = "scores"  # the name of scores that were given without one


@dataclass(frozen=True)
class Claim:
    """A claim that one method is better than another: by how much, in which metric.

    Empty names stand for the two methods of a study that has only two; an empty metric
    stands for the headline.
    """

    difference: float
    better: str = ""
    worse: str = ""
    metric: str = ""

    def __post_init__(self) -> None:
        _check.number("Claim", "difference", self.difference, low=0, open_low=True)


class Chosen(NamedTuple):
    """A threshold in use, with what is known of its choice."""

    value: float
    method: str = ""
    fingerprint: Fingerprint | None = None

    @classmethod
    def read(cls, given: Any) -> "Chosen":
        """Read a number, a `Threshold`, or the record of one."""
        if isinstance(given, Chosen):
            return given
        record = given.to_dict() if isinstance(given, Threshold) else given
        record = record if isinstance(record, Mapping) else {"value": record}
        value, mark = record["value"], record.get("fingerprint")
        value = float(value) if value in ("inf", "-inf") else value  # JSON has none
        return cls(
            _check.threshold("checks.run: thresholds", value),
            record.get("method", ""),
            None if mark is None else Fingerprint.from_dict(mark),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the checks use; a check whose fields are missing is not applicable.

    Scores, calibration scores and thresholds are by name, such as that of the detector;
    calibration scores or a threshold named `ONLY` are those of all. Of `n_left_out`
    sets of scores nothing was read.
    """

    scores: Mapping[str, Scores]
    calibration: Mapping[str, Scores]
    thresholds: Mapping[str, Chosen]
    results: Results | None = None
    protocols: tuple[Protocol, ...] = ()
    parts: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    headline: str = ""
    claim: Claim | None = None
    tuned_on: Sequence[str] = ()
    n_left_out: int = 0

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of all metrics the study reports, the headline first."""
        names = [self.headline, "" if self.claim is None else self.claim.metric]
        names += [row.metric for row in self.results or ()]
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rows of the reported metrics, as far as they are in our table."""
        return tuple(filter(None, map(row_of, self.reported)))

    def calibration_of(self, name: str) -> Scores | None:
        """Return the calibration scores that belong to these test scores."""
        return _belonging(self.calibration, name)

    def threshold_of(self, name: str) -> Chosen | None:
        """Return the threshold that belongs to these test scores."""
        return _belonging(self.thresholds, name)


def _belonging(table: Mapping[str, T], name: str) -> T | None:
    return table[ONLY] if set(table) == {ONLY} else table.get(name)


def row_of(name: str) -> Metric | None:
    """Return the row of the table of metrics for a reported name, or None.

    Examples
    --------
    >>> row_of("ccr_at_fpr_0.05").name, row_of("f_score_micro_best").key
    ('ccr_at_fpr', 'f_score_micro_best')
    >>> row_of("Macro-F1").key, row_of("our new score")
    ('f_score', None)
    """
    # A name with a number: a parameter other than in our rows.
    for one in (name, re.sub(r"_[0-9.]+$", "", name)):
        try:
            return metrics.get(one.partition(":")[0])  # which imports nothing
        except ValueError:
            continue
    return None


def gathered(
    *,
    scores: Scores | Mapping[str, Scores] | None = None,
    calibration: Scores | Mapping[str, Scores] | None = None,
    thresholds: Any = None,
    results: Iterable[Result] | None = None,
    protocols: Protocol | Iterable[Protocol] | None = None,
    parts: Cut | Mapping[str, Iterable[Any]] | None = None,
    headline: str | None = None,
    claim: float | Claim | None = None,
    tuned_on: str | Sequence[str] | None = None,
    **others: Any,
) -> Evidence:
    """Check and sort what is known about an evaluation; see :func:`run`."""
    sets, chosen = named(scores), named(calibration)
    for one in (*sets.values(), *chosen.values()):
        need_scores("checks.run", one)
    origins = [tuned_on] if isinstance(tuned_on, str) else tuned_on or ()
    for origin in origins:
        _check.one_of("checks.run", "tuned_on", origin, TUNED_ON)
    parts = parts_of(parts) if isinstance(parts, Cut) else parts or {}
    return Evidence(
        scores=sets,
        calibration=chosen,
        thresholds={n: Chosen.read(one) for n, one in named(thresholds).items()},
        results=(results if isinstance(results, Results | None) else Results(results)),
        protocols=(
            (protocols,) if isinstance(protocols, Protocol) else tuple(protocols or ())
        ),
        parts={part: np.asarray(list(ids), np.str_) for part, ids in parts.items()},
        headline=headline or "",
        claim=claim if claim is None or isinstance(claim, Claim) else Claim(claim),
        tuned_on=tuple(origins),
        **others,
    )


def named(value: Any) -> dict[str, Any]:
    """Return what was given by name; one alone gets the name `ONLY`."""
    if value is None:
        return {}
    is_several = isinstance(value, Mapping) and "value" not in value
    return {str(k): v for k, v in value.items()} if is_several else {ONLY: value}


def parts_of(cut: Cut) -> dict[str, NDArray[np.str_]]:
    """Return the names of the samples of each part."""
    parts = {"train": cut.train.ids}
    for name in ("validation", "negative", "surrogate"):
        if getattr(cut, name) is not None:
            parts[name] = getattr(cut, name).ids
    if len(cut.tests) == 1 or cut.protocol.unknowns == "shared":
        # Splits that share their unknowns by design are one part.
        return parts | {"test": np.unique(np.concatenate([t.ids for t in cut.tests]))}
    return parts | {f"test {i}": test.ids for i, test in enumerate(cut.tests)}
