"""The table of metrics: each number that is reported, once.

Everything that names, orders, labels or ranks metrics reads this table. A metric's
module registers its own rows; a metric from outside the package is registered by one
call, offered as an entry point of the group ``openset.metrics``, or named as
``package.module:Name``.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, get_args

from openset import _check, _plugins
from openset.metrics._sweep import sweep
from openset.scores import Scores

Kind = Literal[
    "closed", "ranking", "threshold", "operational", "oracle", "data", "curve"
]
Direction = Literal["higher", "lower", "neither"]

SECTIONS: Mapping[Kind, str] = {
    "closed": "Closed set",
    "ranking": "Ranking",
    "threshold": "At the threshold",
    "operational": "At the threshold",
    "oracle": "Best over all thresholds (oracle)",
    "data": "Test data",
}
"""Headings of tables, in their order; a curve is not a number and has none."""

UNIT = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Metric:
    """One row of the table: a number that is reported, and how it is computed.

    Parameters
    ----------
    function
        Computes it: ``function(scores, **params)``, or for `kind` ``"threshold"``
        ``function(scores, threshold, **params)``.
    label, short
        Its name in tables, and in narrow columns and sentences.
    better
        ``"higher"``, ``"lower"``, or ``"neither"`` for numbers that describe the data.
    kind
        What it needs, which is also its section in tables: ``"closed"`` (known samples
        only, no rejection), ``"ranking"`` (no threshold), ``"threshold"``,
        ``"operational"`` (a calibration set), ``"oracle"`` (the best over all
        thresholds of the test data), ``"data"`` (describes the data, not the
        detector), ``"curve"`` (more than one number; not in tables).
    key
        Its name in results; by default the name of the function.
    params
        Parameters of the function for this row.
    bounds
        The smallest and the largest possible value.
    reference
        Where it is defined.
    kernel
        Computes the value from shared counts (:mod:`openset.metrics.counts`), for many
        resampled data sets at once: from `RankingCounts` for ``"ranking"``, from
        `ClassCounts` for ``"closed"`` and ``"threshold"``. Without one, the bootstrap
        calls the function on each resampled data set.
    variance
        From `RankingCounts`: sampling variance of the value and degrees of freedom.
    share_of
        ``"known"`` or ``"unknown"``: the value is a share of these samples, which has
        an interval by formula.
    best_of
        For an oracle: the key of the metric whose largest value it is.
    order
        Place in tables; the smaller, the earlier. Leaderboards with little room show
        the first ones.
    aliases
        Other names for it, lower case, words joined by underscores.
    counts_errors_of
        Which errors change it: ``"classification"``, ``"detection"`` (known against
        unknown), or ``"both"``. Used by the checks of evaluations.
    moves_with_prevalence
        Whether it changes with the share of unknown samples in the data.

    Examples
    --------
    >>> def gap(scores):
    ...     known = scores.known[~scores.is_unknown]
    ...     return known.mean() - scores.known[scores.is_unknown].mean()
    >>> row = Metric(gap, label="Gap between the means", better="higher")
    >>> row.key, row.short, row.section
    ('gap', 'Gap between the means', 'Ranking')
    >>> row.value(Scores(labels=[0, -1], predicted=[0, 0], known=[3.0, 1.0]))
    2.0
    """

    function: Callable[..., Any]
    _: KW_ONLY
    label: str
    better: Direction
    kind: Kind = "ranking"
    short: str = ""
    key: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    reference: str = ""
    kernel: Callable[..., Any] | None = None
    variance: Callable[..., tuple[float, float]] | None = None
    share_of: Literal["known", "unknown"] | None = None
    best_of: str = ""
    order: int = 100
    aliases: tuple[str, ...] = ()
    counts_errors_of: Literal["classification", "detection", "both"] | None = None
    moves_with_prevalence: bool = False

    def __post_init__(self) -> None:
        for name, rule, is_good in (
            ("function", "a function", callable(self.function)),
            ("label", "a text", isinstance(self.label, str) and self.label),
        ):
            if not is_good:
                got = repr(getattr(self, name))
                raise TypeError(_check.must(rule, caller="Metric", name=name, got=got))
        _check.one_of("Metric", "better", self.better, get_args(Direction))
        _check.one_of("Metric", "kind", self.kind, get_args(Kind))
        object.__setattr__(self, "key", self.key or self.name)
        object.__setattr__(self, "short", self.short or self.label)

    @property
    def name(self) -> str:
        """Name of the function; variants of one metric share it."""
        return getattr(self.function, "__name__", self.key)

    @property
    def section(self) -> str:
        """Heading under which tables show it; empty for a curve."""
        return SECTIONS.get(self.kind, "")

    def value(self, scores: Scores, threshold: float | None = None) -> float:
        """Compute it from the samples."""
        at: tuple[Any, ...] = ()
        if self.kind == "threshold":
            at = (threshold,)
        elif self.kind == "oracle":
            at = (sweep(scores).best(self.best_of).threshold,)
        return float(self.function(scores, *at, **self.params))


def best(row: Metric, **changes: Any) -> Metric:
    """Return the oracle of a row: its largest value over all thresholds of the data."""
    of_the_oracle: dict[str, Any] = {
        "key": f"{row.key}_best",
        "label": f"{row.label}, best",
        "short": f"best {row.short}",
        "kind": "oracle",
        "best_of": row.key,
        "kernel": None,
        "aliases": (),
    }
    return replace(row, **of_the_oracle | changes)


def _accept(caller: str, value: Any) -> Metric:
    if not isinstance(value, Metric):
        rule, got = "a Metric", type(value).__name__
        remedy = "Wrap your function: Metric(function, label='...', better='higher')"
        raise TypeError(
            _check.must(rule, caller=caller, name="metric", got=got, remedy=remedy)
        )
    return value


_TABLE: _plugins.Registry[Metric] = _plugins.Registry(
    "openset.metrics", "a metric", _accept, package="openset.metrics"
)


def register(*rows: Metric) -> None:
    """Add rows to the table of metrics, in this process.

    From then on `evaluate` reports them, and tables, leaderboards and reports know
    their labels and directions. Worker processes of a study get the metrics that the
    study names.

    Examples
    --------
    >>> def lowest_known(scores):
    ...     return scores.known[~scores.is_unknown].min()
    >>> row = Metric(lowest_known, label="Lowest known score", better="higher")
    >>> register(row)  # doctest: +SKIP
    """
    for row in rows:
        _TABLE.register(_accept("metrics.register", row).key, row)


def table() -> list[Metric]:
    """Return all rows: built in, registered, and offered by installed packages.

    They are in the order in which tables show them. An installed package whose row
    cannot be loaded is left out with a warning.
    """
    rows = []
    for key in _TABLE.names():
        try:
            rows.append(_row(key))
        except (ImportError, TypeError) as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return sorted(rows, key=lambda row: (row.kind == "oracle", row.order))


def names() -> list[str]:
    """Return the names of all metrics.

    A metric may be reported several times with different parameters, each time under
    a key of its own: see :func:`table`.
    """
    return list(dict.fromkeys(row.name for row in table() if not row.best_of))


def get(
    name: str | Metric, *, caller: str = "metrics.get", argument: str = "name"
) -> Metric:
    """Return the row of a metric.

    Parameters
    ----------
    name
        A key (``"ccr_at_fpr_0.01"``), the name of a metric, which stands for its first
        row, or ``package.module:Name``, which is imported and registered.
    caller, argument
        Calling function and argument, for error messages.

    Examples
    --------
    >>> get("fpr_at_tpr_unknown").label, get("fpr_at_tpr_unknown").better
    ('FPR95, unknown positive', 'lower')
    """
    if isinstance(name, Metric):
        return name
    if isinstance(name, str) and name in _TABLE:
        return _row(name)
    if isinstance(name, str) and ":" in name:
        found = _TABLE.find(name, caller=caller, argument=argument)
        register(found)
        return found
    for row in table():
        if row.name == name:
            return row
    return _TABLE.find(name, caller=caller, argument=argument)  # raises, with a remedy


def sections(keys: Iterable[str]) -> dict[str, list[Metric]]:
    """Return the rows with these keys under their headings, as tables show them."""
    wanted = set(keys)
    rows = [row for row in table() if row.key in wanted]
    made = {
        title: [row for row in rows if row.section == title]
        for title in dict.fromkeys(SECTIONS.values())
    }
    return {title: found for title, found in made.items() if found}


def _row(key: str) -> Metric:
    row = _TABLE[key]
    if row.key != key:
        msg = (
            f"openset.metrics: the entry point {key} must be named by the key of its "
            f"metric, got one with key {row.key!r}"
        )
        raise ImportError(msg)
    return row
