"""Draw a confusion matrix: shares of rows as shades, counts as text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openset.report._svg import STYLE, escaped, readable

MOST = 14
"""Largest number of classes shown; those with fewest errors are pooled."""

Ints = NDArray[np.int64]


def pooled(
    matrix: Ints, names: Sequence[str], *, most: int = MOST
) -> tuple[Ints, list[str]]:
    """Keep the classes with most errors and pool the rest; the unknown row stays.

    Classes without a test sample are pooled first.

    Examples
    --------
    >>> matrix = np.array([[5, 0, 0, 0], [1, 3, 0, 1], [0, 0, 4, 0], [0, 2, 0, 6]])
    >>> small, names = pooled(matrix, ["a", "b", "c", "unknown"], most=2)
    >>> names
    ['b', '2 other classes', 'unknown']
    >>> small
    array([[3, 1, 1],
           [0, 9, 0],
           [2, 0, 6]])
    """
    n = len(names) - 1
    if n <= most:
        return matrix, list(names)
    off = matrix.copy()
    np.fill_diagonal(off, 0)
    errors = (off.sum(axis=0) + off.sum(axis=1))[:n]
    is_absent = matrix.sum(axis=1)[:n] == 0
    kept = np.sort(np.lexsort((-errors, is_absent))[: most - 1])
    place = np.full(n + 1, kept.size)  # index of the pooled classes
    place[kept] = np.arange(kept.size)
    place[n] = kept.size + 1
    small = np.zeros((kept.size + 2,) * 2, dtype=matrix.dtype)
    np.add.at(small, (place[:, None], place[None, :]), matrix)
    rest = f"{n - kept.size} other classes"
    return small, [*(names[i] for i in kept), rest, names[n]]


def draw_matrix(
    matrix: Ints, names: Sequence[str], *, label: str, style: bool = True
) -> str:
    """Draw the matrix; true class by row, decision by column."""
    size = len(names)
    shown = [readable(name, 18) for name in names]
    left = 7.6 * max(map(len, shown)) + 12
    top = 6 + 0.62 * 7.6 * max(map(len, shown)) + 12
    cell = min(max(300 / size, 21.0), 44.0)
    # Slanted names extend beyond their columns.
    over = max(
        0.79 * 7.8 * len(n) - (i + 0.5) * cell for i, n in enumerate(shown[::-1])
    )
    width, height = left + size * cell + max(over + 8, 4), top + size * cell + 6
    support = np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    share = matrix / support
    parts = [
        f'<svg class="os-fig" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="max-width:{width * 1.15:.0f}px" '
        f'aria-label="{escaped(label)}">'
    ]
    if style:
        parts.append(f"<style>{STYLE}</style>")
    for i, name in enumerate(shown):
        middle = (i + 0.5) * cell
        parts.append(
            f'<text class="os-ink" x="{left - 8:.1f}" y="{top + middle + 4:.1f}" '
            f'text-anchor="end">{escaped(name)}</text>'
        )
        x, y = left + middle + 2, top - 6
        parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate(-38 {x:.1f} {y:.1f})">'
            f"{escaped(name)}</text>"
        )
    for (row, column), count in np.ndenumerate(matrix):
        x, y = left + column * cell, top + row * cell
        colour = 0 if row == column else 1
        shade = float(share[row, column])
        parts.append(
            f'<rect x="{x + 0.75:.2f}" y="{y + 0.75:.2f}" width="{cell - 1.5:.2f}" '
            f'height="{cell - 1.5:.2f}" rx="2" style="fill:var(--os-{colour});'
            f'fill-opacity:{0.05 + 0.8 * shade:.3f}">'
            f"<title>{escaped(names[row])} → {escaped(names[column])}: {count} "
            f"({shade:.1%})</title></rect>"
        )
        if count:
            text = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
            kind = ' style="fill:var(--os-page)"' if shade > 0.55 else ' class="os-ink"'
            small = ' font-size="10"' if cell < 26 or len(text) > 3 else ""
            parts.append(
                f'<text x="{x + cell / 2:.1f}" y="{y + cell / 2 + 4:.1f}" '
                f'text-anchor="middle"{small}{kind}>{text}</text>'
            )
    return "".join([*parts, "</svg>"])
