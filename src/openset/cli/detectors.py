"""`openset detectors`."""

from typing import Any

import openset
from openset.cli.options import Json
from openset.cli.terminal import print_json, say, table

INPUTS = {"logits": "L", "features": "F", "labels": "y", "head": "H"}


def command(as_json: Json = False) -> None:
    """List the detectors: inputs they need, what the score is, their cost.

    Costs are per sample, with C classes, d features and n training samples. Options and
    papers are in what --json prints.

        openset detectors
        openset detectors --json
        openset score --detector knn:k=20 --train train.npz test.npz --out scores.npz
    """
    rows, records = [], []
    for name in openset.detectors.names():
        kind = openset.detectors.find(name)
        row: dict[str, Any] = {"name": name}
        for need, letter in INPUTS.items():
            of = {"f": kind.fit_needs, "s": kind.score_needs}
            row[letter] = "".join(mark for mark, needs in of.items() if need in needs)
        fit_cost, score_cost = kind.costs
        row |= {"score is": kind.score_scale}
        rows.append(row | {"fit": fit_cost, "score": score_cost})
        records.append(
            {
                "name": name,
                "options": openset.detectors.options(name),
                "fit_needs": sorted(kind.fit_needs),
                "score_needs": sorted(kind.score_needs),
                "score_scale": kind.score_scale,
                "fit_cost": fit_cost,
                "score_cost": score_cost,
                "paper": kind.paper,
            }
        )
    if as_json:
        print_json(records)
        return
    table(rows)
    say(
        "Inputs: L logits, F features, y labels, H head (weight and bias of the last "
        "layer); f: needed to fit, s: needed to score. Scales differ: log-odds are "
        "log(p / (1 - p)), 0 where p is one half",
        style="dim",
    )
