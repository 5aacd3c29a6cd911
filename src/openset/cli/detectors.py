"""`openset detectors`."""

from rich import box
from rich.table import Table

from openset import detectors
from openset.cli._tables import OUT

EPILOG = """[bold]Examples[/bold]

openset detectors

openset score --detector postmax --train train.npz test.npz --out scores.npz"""


_INPUTS = {"logits": "L", "features": "F", "labels": "y", "head": "H"}


def command() -> None:
    """List the detectors: the inputs they need, their cost, their paper.

    Costs are per sample, with C classes, d features and n training samples.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True, style="bold")
    for letter in _INPUTS.values():
        table.add_column(letter, justify="center", min_width=2)
    table.add_column("fit", no_wrap=True)
    table.add_column("score", no_wrap=True)
    table.add_column("paper")
    for name in detectors.names():
        kind = detectors.find(name)
        marks = (
            ("f" if need in kind.fit_needs else "")
            + ("s" if need in kind.score_needs else "")
            for need in _INPUTS
        )
        table.add_row(name, *marks, kind.fit_cost, kind.score_cost, kind.paper)
    OUT.print(table)
    OUT.print(
        "Inputs: L logits, F features, y labels, H head (weight and bias of the last "
        "layer); f: needed to fit, s: needed to score",
        style="dim",
    )
