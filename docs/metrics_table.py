"""Write the table of metrics into docs/metrics.md: run by `make docs`."""

import inspect
import re
from pathlib import Path

from openset import metrics

_MARKS = re.compile(r"(<!-- metrics -->\n).*(\n<!-- end -->)", re.DOTALL)
_ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}


def table() -> str:
    """Return one line per metric: what it is, and under which keys it is reported."""
    rows = metrics.table()
    lines = ["| metric | what it is | reported as | better |", "|---|---|---|---|"]
    for name in metrics.names():
        mine = [row for row in rows if row.name == name]
        text = (inspect.getdoc(mine[0].function) or "").partition("\n")[0].rstrip(".")
        text = text.removeprefix("Return the ")
        text = re.sub(r":\w+:`(\w+)`", r"`\1`", text)  # links of the docstring
        keys = ", ".join(f"`{row.key}`" for row in mine)
        arrow = _ARROWS[mine[0].better]
        lines.append(f"| `{name}` | {text[0].upper()}{text[1:]} | {keys} | {arrow} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Return the page with the table of today between its marks."""
    return _MARKS.sub(lambda marks: f"{marks[1]}{table()}{marks[2]}", page)


if __name__ == "__main__":
    path = Path(__file__).with_name("metrics.md")
    path.write_text(written(path.read_text("utf-8")), encoding="utf-8")
