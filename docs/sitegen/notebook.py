"""Run an example in percent format and return it as a notebook with its outputs.

``python docs/sitegen/notebook.py examples/own_detector.py`` prints the notebook. A cell
starts with ``# %%``, a cell of text with ``# %% [markdown]``. As in Jupyter, the value
of a last line that is an expression is shown.
"""

import ast
import contextlib
import io
import json
import linecache
import os
import re
import sys
import tempfile
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

_CELL = re.compile(r"^# %%(?: \[(markdown)\])?.*\n", re.MULTILINE)


def cells(source: str) -> list[tuple[str, str]]:
    r"""Return the kind and the text of every cell.

    Examples
    --------
    >>> cells("# %% [markdown]\n# # Title\n# %%\n1 + 1\n")
    [('markdown', '# Title'), ('code', '1 + 1')]
    """
    parts = _CELL.split(source)[1:]
    found = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        if kind == "markdown":
            lines = [re.sub(r"^# ?", "", line) for line in text.strip().splitlines()]
            found.append(("markdown", "\n".join(lines)))
        else:
            found.append(("code", text.strip().replace("  # fmt: skip", "")))
    return found


def _shown(value: Any) -> dict[str, str]:
    data = {"text/plain": repr(value)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_()
    if hasattr(value, "_repr_markdown_"):
        data["text/markdown"] = value._repr_markdown_()
    return data


def outputs(code: str, names: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Run one cell; return what it printed and its value, as a notebook has them."""
    # Tracebacks, and what reads the source of a class, find the code of the cell.
    linecache.cache[where] = (len(code), None, code.splitlines(keepends=True), where)
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), where, "exec"), names)  # noqa: S102
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append(
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue()}
        )
    if value is not None:
        found.append(
            {
                "output_type": "execute_result",
                "execution_count": None,
                "metadata": {},
                "data": _shown(value),
            }
        )
    return found


def executed(path: Path) -> dict[str, Any]:
    """Return the notebook of an example, run in an empty folder."""
    source = path.read_text("utf-8")
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # classes of the notebook are found there
    made = []
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for i, (kind, text) in enumerate(cells(source)):
                cell = {"id": f"cell-{i}", "metadata": {}, "source": text}
                if kind == "markdown":
                    made.append({"cell_type": "markdown", **cell})
                    continue
                found = outputs(text, module.__dict__, f"{path.stem}-cell-{i}.py")
                cell |= {"execution_count": None, "outputs": found}
                made.append({"cell_type": "code", **cell})
        finally:
            os.chdir(here)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


if __name__ == "__main__":
    out = sys.stdout
    warnings.simplefilter("ignore")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            made = executed(Path(sys.argv[1]))
    except Exception:  # an example may raise anything
        traceback.print_exc()
        sys.exit(1)
    json.dump(made, out)
