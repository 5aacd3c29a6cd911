"""`Evidence`: the parts of an evaluation that the checks use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.checks._metric_names import row_of
from openset.checks._score_files import ScoreFiles
from openset.datasets import Cut
from openset.metrics import Metric
from openset.protocols import Protocol
from openset.results import Results
from openset.scores import Scores
from openset.thresholds import Fingerprint

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
        difference = _check.number(
            "Claim", "difference", self.difference, low=0, open_low=True
        )
        object.__setattr__(self, "difference", difference)


@dataclass(frozen=True)
class ThresholdRecord:
    """A threshold in use, with what is known of its choice."""

    value: float
    method: str = ""
    is_of: Callable[[Scores], bool] | None = (
        None  # whether it was chosen on these samples
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the checks use; a check whose fields are missing is not applicable.

    Parameters
    ----------
    scores
        Test scores: one `Scores`, or several by name, such as that of the detector.
    calibration
        The scores thresholds were chosen on: one for all, or by the names in `scores`.
    thresholds
        A number, a `Threshold` or its `to_dict()`; or several by the names in `scores`.
        The `method` and the `fingerprint` of a threshold are used if it has them.
    results
        The reported numbers.
    protocols
        Which classes were known and unknown in each problem.
    parts
        Names of the samples of each part, ``{"train": [...], "test": [...]}``, or a
        `datasets.Cut`.
    headline
        The metric the conclusions rest on.
    claim
        A claimed difference: a number, or a `Claim`.
    tuned_on
        What hyper-parameters were chosen on: one or several of `TUNED_ON`.
    n_left_out
        Number of sets of scores that were not read, if `scores` is a sample.

    Examples
    --------
    >>> Evidence(headline="F1", claim=0.01).claim
    Claim(difference=0.01, better='', worse='', metric='')
    """

    scores: Mapping[str, Scores] = field(default_factory=dict)
    calibration: Mapping[str, Scores] = field(default_factory=dict)
    thresholds: Mapping[str, ThresholdRecord] = field(default_factory=dict)
    results: Results | None = None
    protocols: tuple[Protocol, ...] = ()
    parts: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    headline: str = ""
    claim: Claim | None = None
    tuned_on: tuple[str, ...] = ()
    n_left_out: int = 0

    def __init__(
        self,
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
    ) -> None:
        if results is not None:
            _kind("results", results, Results)
        if headline is not None:
            _kind("headline", headline, str)
        values = {
            "scores": _named("scores", scores, _scores),
            "calibration": _named("calibration", calibration, _scores),
            "thresholds": _named("thresholds", thresholds, _threshold_record),
            "results": results,
            "protocols": _protocols(protocols),
            "parts": _parts(parts),
            "headline": headline or "",
            "claim": Claim(claim) if isinstance(claim, Real) else claim,
            "tuned_on": _tuned_on(tuned_on),
            "n_left_out": n_left_out,
        }
        if claim is not None:
            _kind("claim", values["claim"], Claim)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of all metrics the study reports, the headline first."""
        names = [self.headline, "" if self.claim is None else self.claim.metric]
        if self.results is not None:
            names += [row.metric for row in self.results]
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rows of the reported metrics, as far as they are in our table."""
        return tuple(filter(None, map(row_of, self.reported)))

    def calibration_of(self, name: str) -> Scores | None:
        """Return the calibration scores that belong to these test scores."""
        return _belonging(self.calibration, name)

    def threshold_of(self, name: str) -> ThresholdRecord | None:
        """Return the threshold that belongs to these test scores."""
        return _belonging(self.thresholds, name)


def _belonging(table: Mapping[str, T], name: str) -> T | None:
    if set(table) == {ONLY}:  # one for all
        return table[ONLY]
    return table.get(name)


def _kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        got = type(value).__name__
        rule = f"a {kind.__name__}"
        raise TypeError(_check.must(rule, caller="checks.run", name=name, got=got))


def _named(name: str, value: Any, read: Any) -> Mapping[str, Any]:
    if value is None:
        return MappingProxyType({})
    if isinstance(value, ScoreFiles):  # they are checked when they are read
        return value
    is_several = isinstance(value, Mapping) and "value" not in value
    table = value if is_several else {ONLY: value}
    return MappingProxyType({str(k): read(name, v) for k, v in table.items()})


def _scores(name: str, value: Any) -> Scores:
    _kind(name, value, Scores)
    return value


def _threshold_record(name: str, value: Any) -> ThresholdRecord:
    """Read a number, a record, or any object with `value`."""
    if isinstance(value, Mapping):
        record = dict(value)
    else:
        keys = ("value", "method", "fingerprint")
        record = {key: getattr(value, key) for key in keys if hasattr(value, key)}
    number = record.get("value", value)
    if number in ("inf", "-inf"):  # JSON has no infinities
        number = float(number)
    return ThresholdRecord(
        value=_check.threshold(f"checks.run: {name}", number),
        method=str(record.get("method") or ""),
        is_of=_fingerprint(name, record.get("fingerprint")),
    )


def _fingerprint(name: str, mark: Any) -> Callable[[Scores], bool] | None:
    if mark is None:
        return None
    if isinstance(mark, Mapping):
        try:
            mark = Fingerprint.from_dict(dict(mark))
        except (KeyError, TypeError, ValueError) as error:
            msg = (
                f"checks.run: {name}: fingerprint must be that of a Threshold, got "
                f"something else ({error!r})"
            )
            raise ValueError(msg) from error
    if not isinstance(mark, Fingerprint):
        got = type(mark).__name__
        rule = "that of a Threshold"
        raise TypeError(
            _check.must(rule, caller="checks.run", name="fingerprint", got=got)
        )
    return mark.is_of


def _protocols(value: Any) -> tuple[Protocol, ...]:
    if value is None:
        return ()
    listed = (value,) if isinstance(value, Protocol) else tuple(value)
    for protocol in listed:
        _kind("protocols", protocol, Protocol)
    return listed


def _parts(value: Any) -> Mapping[str, NDArray[np.str_]]:
    if value is None:
        return MappingProxyType({})
    if isinstance(value, Cut):
        return MappingProxyType(_parts_of_cut(value))
    _kind("parts", value, Mapping)
    return MappingProxyType(
        {
            str(part): np.asarray(list(ids)).astype(np.str_)
            for part, ids in value.items()
        }
    )


def _parts_of_cut(cut: Cut) -> dict[str, NDArray[np.str_]]:
    parts = {"train": cut.train.ids}
    for name in ("validation", "negative", "surrogate"):
        samples = getattr(cut, name)
        if samples is not None:
            parts[name] = samples.ids
    if len(cut.tests) == 1 or cut.protocol.unknowns == "shared":
        # Splits that share their unknowns by design are one part.
        return parts | {"test": np.unique(np.concatenate([t.ids for t in cut.tests]))}
    return parts | {f"test {i}": test.ids for i, test in enumerate(cut.tests)}


def _tuned_on(value: str | Sequence[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = (value,) if isinstance(value, str) else tuple(value)
    return tuple(_check.one_of("checks.run", "tuned_on", v, TUNED_ON) for v in listed)
