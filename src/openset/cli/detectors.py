"""`openset detectors`."""

from typing import Any

from rich import box
from rich.table import Table

from openset import detectors
from openset.cli._console import OUT, Json, print_json

EPILOG = """[bold]Examples[/bold]

openset detectors

openset detectors --json

openset score --detector postmax --train train.npz test.npz --out scores.npz"""


_INPUTS = {"logits": "L", "features": "F", "labels": "y", "head": "H"}


def command(as_json: Json = False) -> None:
    """List the detectors: inputs they need, what the score is, their cost.

    Costs are per sample, with C classes, d features and n training samples. Papers are
    in what --json prints.
    """
    if as_json:
        print_json([_record(name) for name in detectors.names()])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True, style="bold")
    for letter in _INPUTS.values():
        table.add_column(letter, justify="center", min_width=2)
    table.add_column("score is", no_wrap=True)
    table.add_column("fit", no_wrap=True)
    table.add_column("score", no_wrap=True)
    for name in detectors.names():
        kind = detectors.find(name)
        marks = (
            ("f" if need in kind.fit_needs else "")
            + ("s" if need in kind.score_needs else "")
            for need in _INPUTS
        )
        table.add_row(name, *marks, kind.score_scale, kind.fit_cost, kind.score_cost)
    OUT.print(table)
    OUT.print(
        "Inputs: L logits, F features, y labels, H head (weight and bias of the last "
        "layer); f: needed to fit, s: needed to score. "
        "Scales differ: log-odds are log(p / (1 - p)), 0 where p is one half",
        style="dim",
    )


def _record(name: str) -> dict[str, Any]:
    kind = detectors.find(name)
    return {
        "name": name,
        "fit_needs": sorted(kind.fit_needs),
        "score_needs": sorted(kind.score_needs),
        "score_scale": kind.score_scale,
        "fit_cost": kind.fit_cost,
        "score_cost": kind.score_cost,
        "paper": kind.paper,
    }
