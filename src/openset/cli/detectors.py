"""`openset detectors`."""

from rich import box
from rich.table import Table

from openset import detectors
from openset.cli._tables import OUT

EPILOG = """[bold]Examples[/bold]

openset detectors

openset score --detector postmax --train train.npz test.npz --out scores.npz"""


def command() -> None:
    """List the detectors: what each needs, what it costs, where it comes from.

    Costs are per sample: C classes, d features, n training samples, m in the bank.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("name", "fit needs", "score needs", "fit", "score", "paper"):
        table.add_column(column, no_wrap=column == "name")
    for name, kind in detectors.REGISTRY.items():
        table.add_row(
            f"[bold]{name}[/bold]",
            ", ".join(kind.fit_needs) or "-",
            ", ".join(kind.score_needs),
            kind.fit_cost,
            kind.score_cost,
            kind.paper,
        )
    OUT.print(table)
