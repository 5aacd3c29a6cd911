"""`openset extract`."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from openset import _check, datasets
from openset._types import UNKNOWN
from openset.cli._tables import OUT
from openset.datasets import Dataset, _inputs

EPILOG = """[bold]Examples[/bold]

openset extract runs/openauc new.npz --out new-outputs.npz

openset extract runs/openauc svhn --part test --out svhn-outputs.npz

openset predict rejector/ new-outputs.npz"""

_CALLER = "openset extract"


def command(
    run: Annotated[Path, typer.Argument(help="Folder written by openset train.")],
    data: Annotated[
        str, typer.Argument(help="Name of a data set, a .npz file or an image folder.")
    ],
    part: Annotated[
        str, typer.Option(help="Which part, where the data have some. Default: all.")
    ] = "",
    root: Annotated[Path | None, typer.Option(help="Folder of the data.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path(
        "outputs.npz"
    ),
) -> None:
    """Run a trained network over other data and keep its outputs.

    Samples of the classes it was trained on (by name) get their labels, all others -1;
    groups are the class names.
    """
    # Here, not above: the command line must start without the extra.
    from openset.train import Trained  # noqa: PLC0415

    trained = Trained.load(run)
    loaded = datasets.load(data, root)
    rows = np.arange(len(loaded.labels))
    if part:
        _check.one_of(_CALLER, "--part", part, sorted(loaded.parts) or ["(none)"])
        rows = loaded.parts[part]
    labels, groups = _named(loaded, trained.classes)
    outputs = trained.apply(
        _inputs.take(loaded.inputs, rows), labels=labels[rows], groups=groups[rows]
    )
    outputs.save(out)
    is_known = labels[rows] != UNKNOWN
    OUT.print(f"{len(rows)} samples, {is_known.sum()} of known classes → {out}")
    if is_known.any():
        right = np.argmax(outputs.logits, axis=1) == labels[rows]  # type: ignore[arg-type]
        OUT.print(f"accuracy on these: {right[is_known].mean():.4f}", highlight=False)


def _named(data: Dataset, known: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return labels in the order of `known`, and the name of each sample's class."""
    number = {name: i for i, name in enumerate(known)}
    # The last entry is for samples of no class, which are labelled -1.
    labels = np.array([number.get(name, UNKNOWN) for name in data.classes] + [UNKNOWN])
    names = np.array([*data.classes, data.unlisted])
    return labels[data.labels], names[data.labels]
