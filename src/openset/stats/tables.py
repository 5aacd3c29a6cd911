"""Numbers and tables as text: Markdown, LaTeX (booktabs) and CSV."""

from collections.abc import Mapping, Sequence
from typing import Any

from openset import _io
from openset._safe_text import csv_cell

_ROUNDING = 1e-12  # what is smaller than this is a rounding error of 0

_MATHS = {"≤": "leq", "≥": "geq", "·": "cdot", "×": "times", "→": "rightarrow"}
_MATHS |= {"↑": "uparrow", "↓": "downarrow", "±": "pm", "α": "alpha", "β": "beta"}
_MATHS |= {"γ": "gamma", "λ": "lambda", "τ": "tau"}
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%_#${}"}
    | {sign: rf"$\{name}$" for sign, name in _MATHS.items()}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\ldots{}"}
    | {"\\": r"\textbackslash{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {"†": r"$^\dagger$", "−": "$-$", "–": "--", "“": "``", "”": "''", "’": "'"}
)
_MARKDOWN = str.maketrans(
    # Markdown allows HTML: a name must not become a tag.
    {sign: f"\\{sign}" for sign in "\\`*_[]|#~"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "}
)


def number(value: float, *, percent: bool = False) -> str:
    """Format a number with three decimals, or with two digits if these are all zero.

    In percent it has one decimal, and no sign of percent.

    Examples
    --------
    >>> number(0.98765), number(0.00012), number(0.0), number(1e-17)
    ('0.988', '1.2e-04', '0.000', '0.000')
    >>> number(0.98765, percent=True)
    '98.8'
    """
    if percent:
        return f"{100 * value + 0.0:.1f}"
    is_small = _ROUNDING < abs(value) < 0.0005
    return f"{value:.1e}" if is_small else f"{value + 0.0:.3f}"


def mean(value: float, spread: float | None, percent: bool) -> str:  # noqa: FBT001
    """Format mean ± spread, or the mean alone."""
    numbers = [value] if spread is None else [value, spread]
    return " ± ".join(number(one, percent=percent) for one in numbers)


def latex_text(text: str) -> str:
    r"""Escape LaTeX commands, and replace characters that its fonts lack.

    Examples
    --------
    >>> latex_text("A_1 & 5 %")
    'A\\_1 \\& 5 \\%'
    """
    return text.translate(_LATEX)


def markdown_text(text: str) -> str:
    """Escape what Markdown would not show as it is."""
    return text.translate(_MARKDOWN)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table of escaped cells."""
    corner, *heads = header
    first = f"| {corner}{' ' * bool(corner)}| {' | '.join(heads)} |"
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([first, f"|{'---|' * len(header)}", *lines])


def latex(
    header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """Write a booktabs table of escaped cells; notes become comments."""
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        rf"{' & '.join(header)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        "% Needs \\usepackage{booktabs}.",
        *(f"% {note}" for note in notes),
    ]
    return "\n".join([*lines, ""])


def csv_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records of equal keys as CSV."""
    return _io.csv_text(records[0], (map(csv_cell, one.values()) for one in records))
