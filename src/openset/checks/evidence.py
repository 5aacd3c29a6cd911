"""`Evidence`: the parts of an evaluation that the checks use."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from openset import _check, metrics
from openset.metrics import Metric
from openset.protocols import Protocol
from openset.results import Result, Results
from openset.scores import Scores, need_scores
from openset.thresholds import Fingerprint, Threshold

T = TypeVar("T")

ABOUT: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("checks.toml").read_text("utf-8")
)
"""What is said of each check, by its code."""

TUNED_ON: Mapping[str, str] = ABOUT["OSR011"]["origins"]
"""What hyper-parameters may have been chosen on; with the leak, if it is one."""

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
    def read(cls, name: str, given: Any) -> "Chosen":
        """Read a number, a `Threshold`, or the record of one."""
        if isinstance(given, Chosen | Threshold):
            return cls(given.value, given.method, given.fingerprint)
        record = given if isinstance(given, Mapping) else {"value": given}
        value, mark = record.get("value"), record.get("fingerprint")
        value = float(value) if value in ("inf", "-inf") else value  # JSON has none
        return cls(
            _check.threshold(f"checks.run: of {name!r}", value),
            record.get("method", ""),
            None if mark is None else Fingerprint.from_dict(mark),
        )


class Set(NamedTuple):
    """Test scores, and the calibration scores and threshold that belong to them."""

    scores: Scores
    calibration: Scores | None
    threshold: Chosen | None


class Evidence:
    """What is known about an evaluation; see :func:`run` for the parameters.

    Its sets of scores are by name, such as that of the detector; calibration scores or
    a threshold named `ONLY` are those of all. Of `n_left_out` sets nothing was read.
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
        self.scores, chosen_on = named(scores), named(calibration)
        for one in (*self.scores.values(), *chosen_on.values()):
            need_scores("checks.run", one)
        self.thresholds = {
            n: Chosen.read(n, one) for n, one in named(thresholds).items()
        }
        self.sets = {
            name: Set(one, _of(chosen_on, name), _of(self.thresholds, name))
            for name, one in self.scores.items()
        }
        self.results = Results(results)
        protocols = [protocols] if isinstance(protocols, Protocol) else protocols
        self.protocols = tuple(protocols)
        self.parts = {n: set(map(str, ids)) for n, ids in dict(parts or {}).items()}
        self.headline, self.n_left_out = headline, n_left_out
        self.claim = claim if isinstance(claim, Claim | None) else Claim(claim)
        self.tuned_on = (tuned_on,) if isinstance(tuned_on, str) else tuple(tuned_on)
        for origin in self.tuned_on:
            _check.one_of("checks.run", "tuned_on", origin, list(TUNED_ON))

    @property
    def metrics(self) -> list[Metric]:
        """Rows of all metrics the study reports, as far as they are in our table."""
        names = [self.headline, "" if self.claim is None else self.claim.metric]
        names += [row.metric for row in self.results]
        return [row for row in map(row_of, dict.fromkeys(names)) if row is not None]


def _of(table: Mapping[str, T], name: str) -> T | None:
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
