"""`Evidence`: the parts of an evaluation that the checks use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from openset import _check, metrics
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
        if isinstance(given, Chosen | Threshold):
            return cls(given.value, given.method, given.fingerprint)
        record = given if isinstance(given, Mapping) else {"value": given}
        value, mark = record["value"], record.get("fingerprint")
        value = float(value) if value in ("inf", "-inf") else value  # JSON has none
        return cls(
            _check.threshold("checks.run: thresholds", value),
            record.get("method", ""),
            None if mark is None else Fingerprint.from_dict(mark),
        )


class Evidence:
    """What is known about an evaluation; see :func:`run` for the parameters.

    Scores, calibration scores and thresholds are by name, such as that of the detector;
    calibration scores or a threshold named `ONLY` are those of all. Of `n_left_out`
    sets of scores nothing was read.
    """

    def __init__(
        self,
        *,
        scores: Scores | Mapping[str, Scores] | None = None,
        calibration: Scores | Mapping[str, Scores] | None = None,
        thresholds: Any = None,
        results: Iterable[Result] = (),
        protocols: Protocol | Iterable[Protocol] = (),
        parts: Mapping[str, Iterable[Any]] | None = None,
        headline: str = "",
        claim: float | Claim | None = None,
        tuned_on: str | Sequence[str] = (),
        n_left_out: int = 0,
    ) -> None:
        self.scores: Mapping[str, Scores] = named(scores)
        self.calibration: Mapping[str, Scores] = named(calibration)
        for one in (*self.scores.values(), *self.calibration.values()):
            need_scores("checks.run", one)
        self.thresholds = {n: Chosen.read(one) for n, one in named(thresholds).items()}
        self.results = Results(results)
        protocols = [protocols] if isinstance(protocols, Protocol) else protocols
        self.protocols = tuple(protocols)
        self.parts = {name: set(map(str, ids)) for name, ids in (parts or {}).items()}
        self.headline, self.n_left_out = headline, n_left_out
        if not isinstance(claim, Claim | None):
            claim = Claim(claim)
        self.claim = claim
        self.tuned_on = (tuned_on,) if isinstance(tuned_on, str) else tuple(tuned_on)
        for origin in self.tuned_on:
            _check.one_of("checks.run", "tuned_on", origin, TUNED_ON)

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of all metrics the study reports, the headline first."""
        names = [self.headline, "" if self.claim is None else self.claim.metric]
        names += [row.metric for row in self.results]
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rows of the reported metrics, as far as they are in our table."""
        return tuple(filter(None, map(row_of, self.reported)))


def belonging(table: Mapping[str, T], name: str) -> T | None:
    """Return the entry that belongs to the test scores of this name."""
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


def named(value: Any) -> dict[str, Any]:
    """Return what was given by name; one alone gets the name `ONLY`."""
    if value is None:
        return {}
    is_several = isinstance(value, Mapping) and "value" not in value
    return {str(k): v for k, v in value.items()} if is_several else {ONLY: value}
