"""The table of metrics: each number that is reported, once.

Everything that names, orders, labels or ranks metrics reads this table. A metric of the
package is a function with the decorator :func:`metric`; one from outside is registered
by one call, offered as an entry point of the group ``openset.metrics``, or named as
``package.module:Name``.
"""

import csv
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from openset import _check, _plugins
from openset._types import UndefinedMetricError
from openset.metrics.counts import Alpha, ClassCounts, RankingCounts, weight_of
from openset.metrics.sums import Pairs
from openset.scores import Scores, need_scores

Kind = Literal[
    "closed", "ranking", "threshold", "operational", "oracle", "data", "curve"
]
Direction = Literal["higher", "lower", "neither"]

# Options: lowest and highest value, and whether the lowest itself is left out.
Rate = Annotated[float, 0.0, 1.0, False]
PositiveRate = Annotated[float, 0.0, 1.0, True]
Cost = Annotated[float, 0.0, np.inf, False]

SECTIONS: Mapping[Kind, str] = {
    "closed": "Closed set",
    "ranking": "Ranking",
    "threshold": "At the threshold",
    "operational": "At the threshold",
    "oracle": "Best over all thresholds (oracle)",
    "data": "Test data",
}
"""Headings of tables, in their order; a curve is not a number and has none."""

with Path(__file__).with_name("table.csv").open(encoding="utf-8", newline="") as _file:
    _BUILT_IN = {row["key"]: row for row in csv.DictReader(_file)}
"""Facts about the metrics of the package, in the order of tables; see `Metric`.

A row of other parameters, or an oracle, shares the function of another one. `needs` are
the sides that must have samples.
"""


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
    takes_counts
        Whether the function also takes, in place of scores, what they are counted to,
        for many resampled data sets at once: `counts.RankingCounts` for
        ``"ranking"``, `counts.ClassCounts` for ``"closed"`` and ``"threshold"``. If
        not, the bootstrap calls it on each resampled data set.
    variance
        From `counts.RankingCounts`: sampling variance of the value.
    share_of
        ``"known"`` or ``"unknown"``: the value is a share of these samples, which has
        an interval by formula.
    best_of
        For an oracle: the key of the metric whose largest value it is.
    errors
        Which errors change it: ``"classification"`` (a wrong class), ``"detection"``
        (known against unknown) or ``"both"``; empty if that is not known.
    by_prevalence
        Whether it changes with the share of unknown samples in the data.
    aliases
        Other names for it, lower case, words joined by underscores.

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
    takes_counts: bool = False
    variance: Callable[..., float] | None = None
    share_of: Literal["known", "unknown"] | None = None
    best_of: str = ""
    errors: str = ""
    by_prevalence: bool = False
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.function):
            got = repr(self.function)
            _check.fail("Metric", "function", "a function", got, error=TypeError)
        if not (isinstance(self.label, str) and self.label):
            got = repr(self.label)
            _check.fail("Metric", "label", "a text", got, error=TypeError)
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
        if self.best_of:
            from openset.metrics.curves import best_threshold  # noqa: PLC0415  # cyclic

            threshold = best_threshold(self, scores)
        at = (threshold,) if self.best_of or self.kind == "threshold" else ()
        return float(self.function(scores, *at, **self.params))


F = TypeVar("F", bound=Callable[..., Any])


def metric(function: F) -> F:
    """Make a function of scores, or of their counts, a metric, and register its rows.

    Its options are checked by their annotations, and there must be samples of the sides
    it needs.
    """
    name, signature = function.__name__, inspect.signature(function)
    rows = [row for row in _BUILT_IN.values() if row["function"] == name]
    needs, is_curve = rows[0]["needs"].split(), rows[0]["kind"] == "curve"

    @wraps(function)
    def checked(scores: Any, *args: Any, **options: Any) -> Any:
        given = signature.bind(scores, *args, **options).arguments
        for option, value in given.items():
            _check_option(name, option, value, signature.parameters[option])
        if not isinstance(scores, RankingCounts | ClassCounts):
            need_scores(name, scores)
            if needs == ["known", "unknown"]:
                _check.both_sides(name, scores.n_known, scores.n_unknown)
            elif "known" in needs:
                _check.some_known(name, scores.n_known)
            elif needs and not scores.n_unknown:
                msg = f"{name}: undefined without unknown samples, got 0 unknown"
                raise UndefinedMetricError(msg)
        value = function(**given)
        return value if is_curve or np.ndim(value) else float(value)

    register(*(_described(checked, row) for row in rows))
    return checked  # type: ignore[return-value]


def _described(function: Callable[..., Any], row: Mapping[str, str]) -> Metric:
    """Return a metric of the package, with the facts about it as text."""
    plain = ["key", "label", "short", "kind", "better", "best_of", "errors"]
    facts: dict[str, Any] = {name: row[name] for name in plain}
    variance = partial(_variance, of=row["pairs"]) if row["pairs"] else None
    return Metric(
        function,
        params=options_of(row["params"]),
        bounds=tuple(map(float, row["bounds"].split())) or None,  # type: ignore[arg-type]
        takes_counts=row["kind"] in {"closed", "ranking", "threshold"},
        variance=variance,
        share_of=row["share_of"] or None,  # type: ignore[arg-type]
        by_prevalence=row["by_prevalence"] == "yes",
        aliases=tuple(row["aliases"].split()),
        **facts,
    )


def _variance(counts: RankingCounts, of: str) -> float:
    pairs: Pairs = getattr(counts.sums, of)
    return pairs.variance(counts.n_known, counts.n_unknown)


def _check_option(
    caller: str, name: str, value: Any, parameter: inspect.Parameter
) -> None:
    kind = parameter.annotation
    if name == "threshold":
        _check.threshold(caller, value)
    elif kind == Alpha:
        weight_of(caller, value, 1, 1)
    elif get_origin(kind) is Literal:
        _check.one_of(caller, name, value, get_args(kind))
    elif get_origin(kind) is Annotated:
        low, high, is_open = kind.__metadata__
        _check.number(caller, name, value, low=low, high=high, open_low=is_open)


def _accept(caller: str, value: Any) -> Metric:
    if not isinstance(value, Metric):
        remedy = "Wrap your function: Metric(function, label='...', better='higher')"
        got = type(value).__name__
        _check.fail(caller, "metric", "a Metric", got, remedy, TypeError)
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
    place = {key: i for i, key in enumerate(_BUILT_IN)}
    return sorted(
        rows, key=lambda r: (r.kind == "oracle", place.get(r.key, len(place)))
    )


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
        row, a name of the literature (``"AUROC"``, ``"FPR95"``, ``"AUOSCR"``), any of
        these with options (``"ccr_at_fpr:fpr=0.05"``), or ``package.module:Name``,
        which is imported and registered.
    caller, argument
        Calling function and argument, for error messages.

    Examples
    --------
    >>> get("fpr_at_tpr_unknown").label, get("FPR95").key
    ('FPR95, unknown positive', 'fpr_at_tpr')
    >>> row = get("ccr_at_fpr:fpr=0.05")
    >>> row.key, row.label
    ('ccr_at_fpr:fpr=0.05', 'ccr at fpr, fpr=0.05')
    """
    if isinstance(name, Metric):
        return name
    if isinstance(name, str) and ":" in name:
        first, _, options = name.partition(":")
        if "=" in options:
            of = get(first, caller=caller, argument=argument)
            row = with_options(of, options_of(options))
            label = f"{of.name.replace('_', ' ')}, {options}"
            named: Any = {"key": f"{of.name}:{options}", "label": label, "short": label}
            return replace(row, variance=None, aliases=(), **named)
        found = _TABLE.find(name, caller=caller, argument=argument)
        register(found)
        return found
    if isinstance(name, str):
        plain = re.sub(r"[^a-z0-9.]+", "_", name.lower()).strip("_")
        for key in (name, plain):
            if key in _TABLE:
                return _row(key)
        for row in table():
            if plain in {row.name, *row.aliases}:
                return row
    return _TABLE.find(name, caller=caller, argument=argument)  # raises, with a remedy


def with_options(row: Metric, given: Mapping[str, Any]) -> Metric:
    """Return a row with other options, which are checked."""
    parameters = inspect.signature(row.function).parameters
    options = [*parameters][2 if row.kind == "threshold" else 1 :]
    is_open = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    if not given:
        return row
    if row.best_of not in {"", "osa"}:
        remedy = f"Other options have keys of their own, such as {row.best_of}_..._best"
        _check.fail("metrics", row.key, "without options", ", ".join(given), remedy)
    for name, value in given.items():
        if not is_open:
            _check.one_of(row.name, "an option", name, options)
            _check_option(row.name, name, value, parameters[name])
    return replace(row, params={**row.params, **given})


def options_of(text: str) -> dict[str, Any]:
    """Read options as text.

    Examples
    --------
    >>> options_of("fpr=0.05,positive=known"), options_of("")
    ({'fpr': 0.05, 'positive': 'known'}, {})
    """
    found: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value
    return found


def sections(keys: Iterable[str]) -> dict[str, list[Metric]]:
    """Return the rows with these keys under their headings, as tables show them."""
    wanted = set(keys)
    made: dict[str, list[Metric]] = {title: [] for title in SECTIONS.values()}
    for row in [*table(), *(get(key) for key in sorted(wanted) if ":" in key)]:
        if row.key in wanted and row.section:
            made[row.section].append(row)
    return {title: rows for title, rows in made.items() if rows}


def _row(key: str) -> Metric:
    row = _TABLE[key]
    if row.key != key:
        msg = (
            f"openset.metrics: the entry point {key} must be named by the key of its "
            f"metric, got one with key {row.key!r}"
        )
        raise ImportError(msg)
    return row
