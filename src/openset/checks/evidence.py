"""`Evidence`: the parts of an evaluation that the checks use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, metrics
from openset.datasets import Cut
from openset.metrics import Metric
from openset.protocols import Protocol
from openset.results import Results
from openset.scores import Scores
from openset.thresholds import Fingerprint, Threshold

T = TypeVar("T")

TUNED_ON = (
    "defaults",
    "published",
    "n_known",
    "train",
    "validation",
    "negative",
    "surrogate",
    "openness",
    "test",
    "test unknowns",
)
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


@dataclass(frozen=True)
class Chosen:
    """A threshold in use, with what is known of its choice."""

    value: float
    method: str = ""
    fingerprint: Fingerprint | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the checks use; a check whose fields are missing is not applicable.

    Scores, calibration scores and thresholds are by name, such as that of the detector;
    calibration scores or a threshold named `ONLY` are those of all. Of `n_left_out`
    sets of scores nothing was read.
    """

    scores: Mapping[str, Scores] = field(default_factory=dict)
    calibration: Mapping[str, Scores] = field(default_factory=dict)
    thresholds: Mapping[str, Chosen] = field(default_factory=dict)
    results: Results | None = None
    protocols: tuple[Protocol, ...] = ()
    parts: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    headline: str = ""
    claim: Claim | None = None
    tuned_on: tuple[str, ...] = ()
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
    plain = re.sub(r"[^a-z0-9.]+", "_", name.lower()).strip("_")
    rows = metrics.table()
    for row in rows:
        if plain == row.key or plain in row.aliases:
            return row
    # Its function's name, or that with a number: a parameter other than in our rows.
    by_name = re.sub(r"_[0-9.]+$", "", plain)
    return next((row for row in rows if row.name == by_name), None)


def gathered(
    *,
    scores: Scores | Mapping[str, Scores] | None = None,
    calibration: Scores | Mapping[str, Scores] | None = None,
    thresholds: Any = None,
    results: Results | None = None,
    protocols: Protocol | Iterable[Protocol] | None = None,
    parts: Cut | Mapping[str, Iterable[Any]] | None = None,
    headline: str | None = None,
    claim: float | Claim | None = None,
    tuned_on: str | Sequence[str] | None = None,
    n_left_out: int = 0,
) -> Evidence:
    """Check and sort what is known about an evaluation; see :func:`run`."""
    if isinstance(parts, Cut):
        parts = parts_of(parts)
    if isinstance(claim, Real):
        claim = Claim(float(claim) if not isinstance(claim, bool) else claim)
    draws = [protocols] if isinstance(protocols, Protocol) else list(protocols or ())
    sets, chosen = named(scores), named(calibration)
    for name, values, kind in (
        ("scores", sets.values(), Scores),
        ("calibration", chosen.values(), Scores),
        ("results", [results], Results),
        ("protocols", draws, Protocol),
        ("parts", [parts], Mapping),
        ("headline", [headline], str),
        ("claim", [claim], Claim),
    ):
        for value in values:
            if value is not None and not isinstance(value, kind):
                rule, got = f"a {kind.__name__}", type(value).__name__
                _check.fail("checks.run", name, rule, got, error=TypeError)
    origins = [tuned_on] if isinstance(tuned_on, str) else list(tuned_on or ())
    return Evidence(
        scores=sets,
        calibration=chosen,
        thresholds={n: _chosen(value) for n, value in named(thresholds).items()},
        results=results,
        protocols=tuple(draws),
        parts={
            part: np.asarray(list(ids)).astype(np.str_)
            for part, ids in (parts or {}).items()
        },
        headline=headline or "",
        claim=claim,  # type: ignore[arg-type]  # checked above
        tuned_on=tuple(
            _check.one_of("checks.run", "tuned_on", one, TUNED_ON) for one in origins
        ),
        n_left_out=n_left_out,
    )


def named(value: Any) -> dict[str, Any]:
    """Return what was given by name; one alone gets the name `ONLY`."""
    if value is None:
        return {}
    is_several = isinstance(value, Mapping) and "value" not in value
    return {str(k): v for k, v in value.items()} if is_several else {ONLY: value}


def _chosen(given: Any) -> Chosen:
    """Read a number, a `Threshold`, or the record of one."""
    keys = ("value", "method", "fingerprint")
    record = given if isinstance(given, Mapping) else {"value": given}
    if isinstance(given, Threshold | Chosen):
        record = {key: getattr(given, key) for key in keys}
    value = record["value"]
    value = float(value) if value in ("inf", "-inf") else value  # JSON has none
    mark = record.get("fingerprint")
    if isinstance(mark, Mapping):
        try:
            mark = Fingerprint.from_dict(dict(mark))
        except (KeyError, TypeError, ValueError) as error:
            rule = "that of a Threshold"
            _check.fail("checks.run", "thresholds: fingerprint", rule, repr(error))
    number = _check.threshold("checks.run: thresholds", value)
    return Chosen(number, str(record.get("method") or ""), mark)


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
