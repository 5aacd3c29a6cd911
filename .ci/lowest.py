"""Print the lowest versions pyproject.toml allows, one requirement a line.

``pip install -r`` takes them; `make lowest` tests with them. Extras may be named:
``python .ci/lowest.py tables bench``. What constraints.txt pins stays as it is there.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lowest(extras: list[str]) -> list[str]:
    """Return the base dependencies, and those of some extras, at their lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = re.findall(
        r"^([\w-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), flags=re.M
    )
    optional = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(one for name in extras for one in optional[name]),
    ]
    found = []
    for one in wanted:
        if ";" in one:  # of another system
            continue
        name, bound = re.match(r"([\w-]+)(?:\[[\w,]+\])?(?:>=([\w.]+))?", one).groups()
        if name != "openset":
            found.append(name if name in pinned or not bound else f"{name}=={bound}")
    return found


if __name__ == "__main__":
    sys.stdout.write("".join(f"{one}\n" for one in lowest(sys.argv[1:])))
