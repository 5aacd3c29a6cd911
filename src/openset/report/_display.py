"""`Display`: the numbers of a figure, and three ways to show them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset.report._chart import Drawing, Floats, Line
from openset.report._svg import draw_svg
from openset.scores import Scores

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Brief:
    """A short table to read: a header, and rows of text and numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Display:
    """The numbers of a figure, with methods to show them.

    `columns` hold all numbers as a tidy table, `charts` what is drawn, `brief` the
    short table shown next to the figure on a page.

    Examples
    --------
    >>> from openset import Scores, report
    >>> shown = report.oscr(
    ...     Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[0.9, 0.1, 0.5])
    ... )
    >>> shown
    Display('OSCR', 4 rows: name, threshold, fpr, ccr)
    """

    title: str
    columns: Mapping[str, NDArray[Any]]
    charts: tuple[Drawing, ...]
    brief: Brief

    def __repr__(self) -> str:
        n = len(next(iter(self.columns.values())))
        return f"Display({self.title!r}, {n} rows: {', '.join(self.columns)})"

    def to_frame(self) -> Any:
        """Return all numbers as a pandas table."""
        pd = _extras.optional("Display.to_frame", "pandas", name="tables")
        return pd.DataFrame(dict(self.columns))

    def plot(
        self,
        path: str | Path | None = None,
        *,
        width: float | None = None,
        height: float | None = None,
        dpi: float | None = None,
    ) -> Any:
        """Draw with matplotlib; also write ``.pdf``, ``.svg`` or ``.png`` to `path`.

        `width` and `height` are in inches; `dpi` is the resolution of a ``.png``.
        """
        # Imported here: `_matplotlib` imports this module.
        from openset.report._matplotlib import draw  # noqa: PLC0415

        return draw(self, path, width=width, height=height, dpi=dpi)

    def svg(self) -> str:
        """Return a small drawing for web pages; it adapts to a dark colour scheme."""
        return draw_svg(self.charts, label=self.title)

    def _repr_html_(self) -> str:
        drawn = draw_svg(self.charts, label=self.title)
        return f'<div style="max-width:30rem">{drawn}</div>'


def named(caller: str, data: Any, kind: type[T] | tuple[type, ...]) -> dict[str, T]:
    """Return a mapping from name to value, for one value or several."""
    table = data if isinstance(data, Mapping) else {"": data}
    if not table:
        rule = "one or several by name"
        raise ValueError(_check.must(rule, caller=caller, name="scores", got="none"))
    for value in table.values():
        if not isinstance(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            rule = " or ".join(k.__name__ for k in kinds) + ", or several by name"
            got = type(value).__name__
            raise TypeError(_check.must(rule, caller=caller, name="scores", got=got))
    return {str(name): value for name, value in table.items()}


def several(caller: str, scores: Scores | Mapping[str, Scores]) -> dict[str, Scores]:
    """Return scores by name; each must have known and unknown samples."""
    table: dict[str, Scores] = named(caller, scores, Scores)
    for one in table.values():
        _check.both_sides(caller, one.n_known, one.n_unknown)
    return table


def with_repeats(
    caller: str, scores: Scores | Sequence[Scores] | Mapping[str, Any]
) -> dict[str, list[Scores]]:
    """Return the repeats of each name: one `Scores`, or several of different seeds."""
    table = scores if isinstance(scores, Mapping) else {"": scores}
    lists: dict[Any, list[Any]] = {
        name: list(one) if isinstance(one, list | tuple) else [one]
        for name, one in table.items()
    }
    for name, repeats in lists.items():
        several(caller, {f"{name} {i}": one for i, one in enumerate(repeats)})
    several(caller, {name: repeats[0] for name, repeats in lists.items()})
    return {str(name): repeats for name, repeats in lists.items()}


def area_text(
    name: str, metric: Callable[[Scores], float], repeats: Sequence[Scores]
) -> str:
    """Return the mean of a metric over repeats, and its spread, for a legend."""
    values = [metric(one) for one in repeats]
    spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{name} {np.mean(values):.4f}{spread}"


def banded(
    name: str, x: Floats, y: Floats, spread: Floats | None, *, colour: int
) -> Line:
    """Return a curve of rates, with a band of one standard deviation if it has one."""
    if spread is None:
        return Line(name=name, x=x, y=y, colour=colour)
    below, above = np.maximum(y - spread, 0), np.minimum(y + spread, 1)
    return Line(name=name, x=x, y=y, colour=colour, low=below, high=above)


def one_set(caller: str, scores: Any) -> None:
    """Raise if several sets are given to a display of one."""
    rule, remedy = "one Scores", "Show several one after the other"
    _check.instance(caller, "scores", scores, Scores, rule=rule, remedy=remedy)


def stacked(
    parts: Mapping[str, Mapping[str, NDArray[Any]]],
) -> dict[str, NDArray[Any]]:
    """Concatenate the columns of several named tables; the name comes first."""
    columns: dict[str, list[NDArray[Any]]] = {}
    for name, part in parts.items():
        n = len(next(iter(part.values())))
        columns.setdefault("name", []).append(np.full(n, name))
        for column, values in part.items():
            columns.setdefault(column, []).append(np.asarray(values))
    return {column: np.concatenate(values) for column, values in columns.items()}


def from_records(records: Iterable[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Turn records into columns."""
    rows = list(records)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def last_within(x: NDArray[Any], y: NDArray[Any], place: float) -> float:
    """Return `y` at the last point with `x` (ascending) at most a given value."""
    return float(y[np.searchsorted(x, place, side="right") - 1])
