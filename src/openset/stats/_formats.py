"""A leaderboard for the terminal, Markdown, LaTeX, CSV and Parquet."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

from openset import _check, _extras, _io
from openset._safe_text import csv_cell

if TYPE_CHECKING:
    from openset.stats._leaderboard import Entry, Leaderboard

_ARROWS = {"higher": "↑", "lower": "↓"}
_ROUNDING = 1e-12  # what is smaller than this is a rounding error of 0
ENDINGS = (".md", ".csv", ".tex", ".parquet")

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "≤": r"$\leq$",
        "·": r"$\cdot$",
        "→": r"$\rightarrow$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "±": r"$\pm$",
        "†": r"$^\dagger$",
        "≥": r"$\geq$",
        "×": r"$\times$",
        "−": "$-$",
        "–": "--",
        "…": r"\ldots{}",
        "“": "``",
        "”": "''",
        "’": "'",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
        "λ": r"$\lambda$",
        "τ": r"$\tau$",
    }
)
_MARKDOWN = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "\\`*_[]|#~"},
        # Markdown allows HTML: a name must not become a tag.
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
        "\n": " ",
    }
)


def latex_text(text: str) -> str:
    r"""Escape LaTeX commands, and replace characters that its fonts lack.

    Examples
    --------
    >>> latex_text("A_1 & 5 %")
    'A\\_1 \\& 5 \\%'
    """
    return text.translate(_LATEX)


def rich_table(board: "Leaderboard") -> Table:
    """Return the table for the terminal."""
    table = Table(
        title=escape(board.title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),  # two spaces between columns, as in all our tables
        caption=escape("\n".join(board.notes)),
        caption_justify="left",
    )
    table.add_column("")
    for head in _heads(board):
        table.add_column(escape(head), justify="right")
    styles = {1: "bold green", 2: "underline"}
    for row in board.rows:
        cells = []
        for entry in _entries(board, row):
            text = escape(_number(entry) + _worse(board, entry))
            style = styles.get(0 if entry is None else entry.place)
            cells.append(f"[{style}]{text}[/{style}]" if style else text)
        table.add_row(escape(row), *cells, *_rank(board, row))
    return table


def markdown(board: "Leaderboard") -> str:
    """Write a Markdown table."""
    marks = {1: "**", 2: "*"}
    heads = [head.translate(_MARKDOWN) for head in _heads(board)]
    corner = _corner(board).translate(_MARKDOWN)
    lines = [
        f"| {corner}{' ' * bool(corner)}| {' | '.join(heads)} |",
        f"|{'---|' * (len(heads) + 1)}",
    ]
    for row in board.rows:
        cells = []
        for entry in _entries(board, row):
            mark = marks.get(0 if entry is None else entry.place, "")
            cells.append(f"{mark}{_number(entry)}{mark}{_worse(board, entry)}")
        shown = " | ".join([row.translate(_MARKDOWN), *cells, *_rank(board, row)])
        lines.append(f"| {shown} |")
    return "\n".join(lines)


def latex(board: "Leaderboard") -> str:
    """Write a booktabs table."""
    marks = {1: r"\textbf{%s}", 2: r"\underline{%s}"}
    heads = [latex_text(head) for head in _heads(board)]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(heads)}}}",
        r"\toprule",
        rf"{latex_text(_corner(board))} & {' & '.join(heads)} \\",
        r"\midrule",
    ]
    for row in board.rows:
        cells = []
        for entry in _entries(board, row):
            mark = marks.get(0 if entry is None else entry.place, "%s")
            text = mark % latex_text(_number(entry))
            cells.append(text + latex_text(_worse(board, entry)))
        shown = " & ".join([latex_text(row), *cells, *_rank(board, row)])
        lines.append(rf"{shown} \\")
    notes = ["% Needs \\usepackage{booktabs}.", *(f"% {note}" for note in board.notes)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes, ""])


def csv_text(records: Sequence[dict[str, Any]]) -> str:
    """Write records as CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: csv_cell(value) for name, value in record.items()})
    return text.getvalue()


def to_frame(records: Sequence[dict[str, Any]]) -> Any:
    """Return records as a pandas table."""
    pd = _extras.optional("Leaderboard.to_frame", "pandas", name="tables")
    return pd.DataFrame(list(records))


def save(board: "Leaderboard", path: Path) -> Path:
    """Write the format given by the ending."""
    caller = "Leaderboard.save"
    _check.ending(caller, path, ENDINGS)
    if path.suffix == ".parquet":
        pa = _extras.optional(caller, "pyarrow", name="tables")
        parquet = _extras.optional(caller, "pyarrow.parquet", name="tables")
        with _io.replacing(path) as temporary:
            parquet.write_table(pa.Table.from_pylist(board.records()), temporary)
        return path
    if path.suffix == ".md":
        text = "\n\n".join([board.to_markdown(), " ".join(board.notes)]) + "\n"
    else:
        text = board.to_csv() if path.suffix == ".csv" else board.to_latex()
    _io.put(path, text)
    return path


def _heads(board: "Leaderboard") -> list[str]:
    arrows = [
        f"{board.labels.get(column, column)} {_ARROWS[board.better[column]]}"
        for column in board.columns
    ]
    return arrows if board.ranks is None else [*arrows, "mean rank"]


def _corner(board: "Leaderboard") -> str:
    """Return the metric, if the columns are protocols: a table without it says little.

    The table for the terminal has it as its title.
    """
    return "" if board.labels else board.title


def _entries(board: "Leaderboard", row: str) -> list["Entry | None"]:
    return [board.entries.get((row, column)) for column in board.columns]


def _rank(board: "Leaderboard", row: str) -> list[str]:
    return [] if board.ranks is None else [f"{board.ranks.mean[row]:.2f}"]


def _worse(board: "Leaderboard", entry: "Entry | None") -> str:
    return "†" if entry is not None and board.is_worse(entry) else ""


def _number(entry: "Entry | None") -> str:
    if entry is None:
        return "–"
    spread = "" if entry.spread is None else f" ± {number(entry.spread)}"
    return f"{number(entry.mean)}{spread}"


def number(value: float) -> str:
    """Format a number with three decimals, or with two digits if these are all zero.

    Examples
    --------
    >>> number(0.98765), number(0.00012), number(0.0), number(1e-17)
    ('0.988', '1.2e-04', '0.000', '0.000')
    """
    is_small = _ROUNDING < abs(value) < 0.0005
    return f"{value:.1e}" if is_small else f"{value + 0.0:.3f}"
