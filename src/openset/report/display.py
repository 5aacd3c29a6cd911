"""`Display`: the numbers of a figure, drawn by matplotlib for papers and for pages."""

import hashlib
import html
import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _optional

HERE = Path(__file__).parent
STYLE = HERE / "openset.mplstyle"

# Distinguishable by colour-blind readers, on white and on black.
LIGHT = ("#2468b4", "#c8620a", "#2a8a62", "#8a4bb0", "#b0314f", "#6b7280", "#8a7a12")
_DARK = ("#6ba6ee", "#f0a04b", "#5cc79a", "#c192e8", "#f2809b", "#a5adba", "#d6c250")
INK, SOFT, LINE, PAGE = "#16202c", "#566273", "#e3e8ee", "#ffffff"
_NAMES = (*map(str, range(len(LIGHT))), "ink", "soft", "line", "page")
_VARIABLES = {
    colour: f"var(--os-{name})"
    for colour, name in zip((*LIGHT, INK, SOFT, LINE, PAGE), _NAMES, strict=True)
}


def _declared(colours: Iterable[str]) -> str:
    pairs = zip(_NAMES, colours, strict=True)
    return f".os-fig{{{''.join(f'--os-{name}:{colour};' for name, colour in pairs)}}}"


CSS = (
    _declared(_VARIABLES)
    + "@media screen and (prefers-color-scheme:dark){"
    + _declared((*_DARK, "#e8edf3", "#9fadbd", "#2a3541", "#182029"))
    + "}.os-fig{display:block;width:100%;height:auto;background:var(--os-page)}"
    ".os-fig *{stroke-linejoin:round;stroke-linecap:butt}"
    ".os-fig text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
    "!important;font-variant-numeric:tabular-nums}"
)
"""Colours of drawings by day and by night; a page with many of them has this once."""

SMALL = 7.1  # points: the small letters of the style
_WIDE = 0.6  # width of a letter in a wide font, as a share of its height

# Control characters, halves of others, and changes of direction are no part of a name.
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

Panel: TypeAlias = Callable[[Any], None]
"""Draws on axes of matplotlib."""


class Brief(NamedTuple):
    """A short table to read: a header, and rows of text and numbers."""

    header: Sequence[str]
    rows: Sequence[tuple[Any, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Display:
    """The numbers of a figure, with methods to show them.

    `columns` hold all numbers as a tidy table, `brief` a short table to read beside the
    figure; `panels` draw it, one pair of axes each, of `size` (inches).

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
    brief: Brief
    panels: Sequence[Panel]
    size: tuple[float, float] = (3.4, 2.1)

    def __repr__(self) -> str:
        n = len(next(iter(self.columns.values())))
        return f"Display({self.title!r}, {n} rows: {', '.join(self.columns)})"

    def to_frame(self) -> Any:
        """Return all numbers as a pandas table."""
        return _optional.optional("pandas", "tables").DataFrame(dict(self.columns))

    def plot(
        self,
        path: str | Path | None = None,
        *,
        width: float | None = None,
        height: float | None = None,
        dpi: float | None = None,
    ) -> Any:
        """Draw with matplotlib and return the figure; also write it to `path`.

        Parameters
        ----------
        path
            A file that ends in ``.pdf``, ``.svg`` or ``.png``.
        width, height
            Size in inches; by default from what is drawn. A column of a paper is often
            3.3 inches wide.
        dpi
            Dots per inch of a ``.png``.
        """
        for name, value in (("width", width), ("height", height), ("dpi", dpi)):
            if value is not None:
                _check.number("Display.plot", name, value, low=0, open_low=True)
        matplotlib = _optional.optional("matplotlib", "report")
        with matplotlib.rc_context(fname=STYLE):
            figure = _figure(self.panels, self.size, width, height)
            if path is not None:
                ending = Path(path).suffix.removeprefix(".")
                # Without a date the same numbers give the same file.
                dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
                how: dict[str, Any] = {"format": ending, "metadata": dates.get(ending)}
                how |= {} if dpi is None else {"dpi": dpi}
                _io.write(Path(path), lambda stream: figure.savefig(stream, **how))
        return figure

    def svg(self, *, style: bool = True) -> str:
        """Return a small drawing for web pages; it adapts to a dark colour scheme.

        Without `style` the page itself must hold the colours, once for all drawings.
        """
        drawn = [_drawn(panel, self.size, self.title) for panel in self.panels]
        if style:
            drawn[0] = drawn[0].replace(">", f"><style>{CSS}</style>", 1)
        return "".join(drawn)

    def _repr_html_(self) -> str:
        return f'<div style="max-width:30rem">{self.svg()}</div>'


def _figure(
    panels: Sequence[Panel],
    size: tuple[float, float],
    width: float | None = None,
    height: float | None = None,
) -> Any:
    """Draw panels in two columns, above one legend for all."""
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    width = width or size[0] * columns
    # Figure instead of pyplot: no global state, no window, no backend.
    module = _optional.optional("matplotlib.figure", "report")
    figure = module.Figure(figsize=(width, height or size[1] * rows))
    every = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    entries: dict[str, Any] = {}
    for axes, draw in zip(every, panels, strict=False):
        draw(axes)
        handles, names = axes.get_legend_handles_labels()
        entries = dict(zip(names, handles, strict=True)) | entries
    if entries:
        names = [readable(name, _letters(width, 30)) for name in entries]
        each = _WIDE * SMALL * max(map(len, names)) + 26
        per_row = max(1, min(len(names), int(72 * width / each)))
        figure.legend(entries.values(), names, loc="outside lower left", ncols=per_row)
        if height is None:
            more = -(-len(names) // per_row) * SMALL * 1.3 / 72
            figure.set_figheight(size[1] * rows + more)
    return figure


def _letters(inches: float, less: float) -> int:
    """Return how many small letters fit side by side, less some points."""
    return max(4, int((72 * inches - less) / (_WIDE * SMALL)))


def _drawn(panel: Panel, size: tuple[float, float], title: str) -> str:
    """Draw one panel as SVG: its colours are variables, its font is the page's."""
    matplotlib = _optional.optional("matplotlib", "report")
    stream = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The page's font draws the letters: that ours lacks some does not matter.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        matplotlib.rcdefaults()  # the same page, whatever the reader's own settings
        matplotlib.rcParams.update(
            matplotlib.rc_params_from_file(STYLE, use_default_template=False)
        )
        matplotlib.rcParams.update(
            {"font.family": "DejaVu Sans", "path.simplify_threshold": 0.5}
        )
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure = _figure([panel], size)
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    wide, high = (72 * inches for inches in figure.get_size_inches())
    # Names of clips and markers are those of their content: another drawing's, too.
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:6]
    text = re.sub(r"<(style|metadata)\b.*?</\1>", "", text, flags=re.DOTALL)
    # Only tags are changed: a name may look like a colour, or like a tag's content.
    text = re.sub(r"<[^>]*>", lambda tag: _clean(tag[0], mark), text)
    text = re.sub(r"\s*\n\s*", "", text)
    label = html.escape(readable(title))
    head = (
        '<svg class="os-fig" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'style="max-width:{1.5 * wide:.0f}px" viewBox="0 0 {wide:.5g} {high:.5g}" '
        f'aria-label="{label}">'
    )
    return head + text[text.index(">") + 1 :]


def _clean(tag: str, mark: str) -> str:
    if tag.startswith("<!--"):
        return ""
    tag = re.sub(r' id="[\w.]+_\d{1,3}"', "", tag)  # of groups
    tag = re.sub(r'( id="|href="#|url\(#)(\w+)', rf"\g<1>\g<2>{mark}", tag)
    tag = re.sub(r"(\.\d\d)\d+", r"\1", tag).replace("xlink:href", "href")
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, variable)
    return re.sub(r"\s*\n\s*", " ", tag)


def readable(text: object, longest: int = 10_000) -> str:
    """Return a name without control characters and surrogates, limited in length.

    Examples
    --------
    >>> readable("a" * 9, 4), readable("tab" + chr(9) + "here")
    ('aaa…', 'tab�here')
    """
    clean = _ODD.sub("\N{REPLACEMENT CHARACTER}", str(text))
    return clean if len(clean) <= longest else clean[: max(longest, 2) - 1] + "…"


def number_text(value: Any) -> str:
    """Format a number for a table: four decimals, none for counts."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return readable(value)
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    number = float(value)
    large = abs(number) >= 1000 or 0 < abs(number) < 1e-4
    text = f"{number:.4g}" if large else f"{number:.4f}"
    text = {"nan": "–", "inf": "∞", "-inf": "-∞"}.get(text, text)
    return text.replace("-", "\N{MINUS SIGN}")


def key(name: object, longest: int = 52) -> str | None:
    """Return a name for the legend; matplotlib leaves out those that begin with _."""
    shown = readable(name, longest)
    return f" {shown}" if shown.startswith("_") else shown or None


def label(axes: Any, x: str, y: str, title: str = "") -> None:
    """Name both axes: the vertical one above it, where a long name has room."""
    inches = axes.figure.get_figwidth() / axes.get_gridspec().ncols
    letters = _letters(inches, 30)  # beside the numbers of the vertical axis
    both = " · ".join(filter(None, (readable(title, 60), readable(y))))
    how = {"fontweight": "bold", "color": INK} if title else {"color": SOFT}
    axes.set_title(textwrap.fill(both, letters), **how)
    axes.set_xlabel(textwrap.fill(readable(x, 80), letters))


def line(
    axes: Any,
    x: Any,
    y: Any,
    name: object,
    colour: int,
    *,
    low: Any = None,
    high: Any = None,
    **more: Any,
) -> None:
    """Draw a curve, with a band if it has one."""
    shade = LIGHT[colour % len(LIGHT)]
    axes.plot(x, y, color=shade, label=key(name), **more)
    if low is not None:
        axes.fill_between(x, low, high, color=shade, alpha=0.15, linewidth=0)


def mark(
    axes: Any, place: tuple[Any, Any], shape: str, colour: str, name: str = ""
) -> None:
    """Draw a point that is looked for; without a place only its sign in the legend."""
    size = {"*": 10.0, "D": 5.5}.get(shape, 5.0)
    axes.plot(
        *place, shape, color=colour, markersize=size, markeredgecolor=PAGE,
        markeredgewidth=0.8, label=key(name), zorder=3, clip_on=not np.size(place[0]),
    )  # fmt: skip


def stacked(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Concatenate the columns of several named tables; the name comes first."""
    tables = list(parts.values())
    columns = {name: [np.asarray(one[name]) for one in tables] for name in tables[0]}
    sizes = [len(part) for part in next(iter(columns.values()))]
    names = np.repeat(np.array(list(parts), dtype=np.str_), sizes)
    return {"name": names} | {n: np.concatenate(each) for n, each in columns.items()}


def as_columns(
    header: Sequence[str], rows: Sequence[Sequence[Any]]
) -> dict[str, NDArray[Any]]:
    """Turn rows into columns."""
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(header)}
