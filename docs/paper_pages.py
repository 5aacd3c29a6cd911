"""Write the results of `openset reproduce` into docs/papers/: run by `make docs`.

A page has places such as ``<!-- results: openauc-table1 -->`` ... ``<!-- end -->``;
between the marks stand the tables of ``docs/papers/results/openauc-table1.json``.
"""

import re
from pathlib import Path

from openset import reproduce

PAPERS = Path(__file__).with_name("papers")
_MARKS = re.compile(
    r"(<!-- results: (?P<name>[\w-]+) -->\n).*?(\n<!-- end -->)", re.DOTALL
)


def results(name: str) -> reproduce.Reproduction:
    """Read the results file of an item."""
    return reproduce.load(PAPERS / "results" / f"{name}.json")


def shown(name: str) -> str:
    """Return the tables and figures of an item, and how they were made."""
    made = results(name)
    record = made.provenance
    when = f", {record['started'][:10]}" if "started" in record else ""
    made_by = f"`{made.command}`, openset {record['version']}{when}."
    return f"{made.markdown(figures='figures/')}\n\n{made_by}"


def written(page: str) -> str:
    """Return a page with today's results between its marks."""
    return _MARKS.sub(lambda found: f"{found[1]}{shown(found['name'])}{found[3]}", page)


if __name__ == "__main__":
    for path in sorted(PAPERS.glob("*.md")):
        path.write_text(written(path.read_text("utf-8")), encoding="utf-8")
