"""Docstrings of the package, written for Sphinx, as Markdown: a Griffe extension."""

import functools
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parents[1]))  # Griffe loads this file alone
from sitegen import api

_MATH = re.compile(
    r"^( *)\.\. math::[ ]*(.*\n(?:\1 +.*\n|[ ]*\n(?=\1 ))*)", re.MULTILINE
)
_INLINE = re.compile(r":math:`([^`]+)`")
_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?([^`<]+)`")
_TABLE = re.compile(r"^=+(?: +=+)+\n(?:.+\n)+", re.MULTILINE)
_DOCTEST = re.compile(r"^(?:>>> .*\n(?:(?!>>> ).+\n)*)+", re.MULTILINE)


def _table(found: re.Match[str]) -> str:
    """Return a table between rulers of equals signs as Markdown has it."""
    ruler, *lines = found[0].rstrip().splitlines()
    starts = [one.start() for one in re.finditer(r"=+", ruler)]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    rows = [[line[a:b].strip() for a, b in spans] for line in lines]
    rulers = [i for i, line in enumerate(lines) if line.startswith("=")]
    head = rows[: rulers[0]] if len(rulers) > 1 else [[""] * len(spans)]
    body = rows[rulers[0] + 1 : rulers[1]] if len(rulers) > 1 else rows[: rulers[0]]
    shown = [*head, ["---"] * len(spans), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown) + "\n"


@functools.cache
def homes() -> dict[str, str]:
    """Return public name -> its place in the reference, bare and in full."""
    found: dict[str, str] = {}
    for module, names in api.modules().items():
        for name in api.members(module, names):
            found.setdefault(name, f"{module}.{name}")
            found[f"{module}.{name}"] = f"{module}.{name}"
    return found


def _named(found: re.Match[str]) -> str:
    name = " ".join(found[1].split())
    return f"[`{name}`][{homes()[name]}]" if name in homes() else f"`{name}`"


def markdown(text: str) -> str:
    r"""Return a docstring with formulas and names as Markdown has them.

    Examples
    --------
    >>> markdown("The :func:`ccr` of :math:`x`.")
    'The [`ccr`][openset.metrics.ccr] of $x$.'
    """

    def block(found: re.Match[str]) -> str:
        tex = " ".join(textwrap.dedent(found[2]).split())
        return f"{found[1]}$$\n{found[1]}{tex}\n{found[1]}$$\n\n"

    text = _TABLE.sub(_table, _MATH.sub(block, text + "\n"))
    if "Examples\n---" not in text:  # a module's example stands in its text
        text = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}```\n", text)
    text = _INLINE.sub(lambda found: f"${' '.join(found[1].split())}$", text)
    return _ROLE.sub(_named, text).rstrip()


class Docstrings(griffe.Extension):
    """Change every docstring as it is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if not obj.is_alias and obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
