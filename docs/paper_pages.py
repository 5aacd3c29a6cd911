"""Write the results of `openset reproduce` into docs/papers/: run by `make docs`.

A page has places such as ``<!-- results: openauc-table1 -->`` ... ``<!-- end -->``;
between the marks stand the tables of ``docs/papers/results/openauc-table1.json``.
Where an item has one table per network and metric, a page shows their means only, and
where it has one row per comparison, one row per network and metric. Every number is in
the results file.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from openset import reproduce

PAPERS = Path(__file__).with_name("papers")
_MARKS = re.compile(
    r"(<!-- results: (?P<name>[\w-]+) -->\n).*?(\n<!-- end -->)", re.DOTALL
)


def results(name: str) -> reproduce.Reproduction:
    """Read the results file of an item."""
    return reproduce.load(PAPERS / "results" / f"{name}.json")


def means(tables: Sequence[reproduce.Table]) -> list[reproduce.Table]:
    """Join tables that end in a mean to one per metric, with a row per network."""
    joined: dict[str, reproduce.Table] = {}
    for table in tables:
        if not table.rows or table.rows[-1][0] != "mean":
            joined[table.title] = table
            continue
        metric, _, network = table.title.partition(", ")
        network, _, chosen = network.partition("; threshold chosen with ")
        kinds = f"{chosen}; " if chosen else ""
        title = f"{metric}, mean over the kinds of unknowns"
        before = joined[title].rows if title in joined else ()
        first = "network (threshold chosen with; kinds tested)"
        first = first if chosen else "network (kinds tested)"
        row = (f"{network} ({kinds}{len(table.rows) - 1})", *table.rows[-1][1:])
        columns = (first, *table.columns[1:])
        joined[title] = replace(
            table, title=title, columns=columns, rows=(*before, row)
        )
    return list(joined.values())


def beside(table: reproduce.Table) -> reproduce.Table:
    """Put comparisons with several methods beside each other: difference and p-value."""
    if table.columns[:4] != ("network", "metric", "against", "difference"):
        return table
    others = tuple(dict.fromkeys(row[2] for row in table.rows))
    at = table.columns.index("p")
    found = {row[:3]: f"{row[3]:+.{table.digits}f} ({row[at]})" for row in table.rows}
    rows = tuple(
        (*key, *(found[*key, other] for other in others))
        for key in dict.fromkeys(row[:2] for row in table.rows)
    )
    columns = ("network", "metric", *(f"against {other} (p)" for other in others))
    return replace(
        table,
        title="PostMax against the others, all kinds of unknowns pooled",
        columns=columns,
        rows=rows,
    )


def shown(name: str, before: str = "") -> str:
    """Return the tables and figures of an item, and how they were made.

    Notes that stand in the text before are not repeated.
    """
    made = results(name)
    tables = tuple(map(beside, means(made.tables)))
    record = made.provenance
    when = f", {record['started'][:10]}" if "started" in record else ""
    made_by = f"`{made.command}`, openset {record['version']}{when}."
    if tables != made.tables:
        made_by += f" [All rows](results/{name}.json)."
    # What the notes say of columns that are not shown.
    notes = tuple(re.sub(r"; kinds better .*(?=\.$)", "", note) for note in made.notes)
    notes = tuple(note for note in notes if note not in before)
    short = replace(made, tables=tables, notes=notes)
    return f"{short.markdown(figures='figures/')}\n\n{made_by}"


def written(page: str) -> str:
    """Return a page with today's results between its marks."""
    text, end = "", 0
    for found in _MARKS.finditer(page):
        text += page[end : found.start()] + found[1]
        text += shown(found["name"], before=text) + found[3]
        end = found.end()
    return text + page[end:]


if __name__ == "__main__":
    for path in sorted(PAPERS.glob("*.md")):
        path.write_text(written(path.read_text("utf-8")), encoding="utf-8")
