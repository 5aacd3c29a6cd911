"""`openset export`."""

from pathlib import Path
from typing import Annotated

import typer

from openset import _check
from openset.cli._tables import OUT
from openset.rejector import Rejector

EPILOG = """[bold]Examples[/bold]

openset export rejector/ --onnx --out rejector.onnx

openset export rejector/ --onnx --model network.onnx --out network-open.onnx"""


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="REJECTOR", help="Folder of a saved rejector.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    onnx: Annotated[
        bool, typer.Option("--onnx", help="As an ONNX graph (the only format so far).")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="ONNX file of the network to put the rejector behind."),
    ] = None,
    logits: Annotated[
        str | None, typer.Option(help="Name of the network's output with the logits.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Name of the tensor that enters its last linear layer."),
    ] = None,
) -> None:
    """Write a rejector as a graph that other runtimes run.

    Inputs: logits and, where the detector looks at them, features; or, with --model,
    those of the network. Outputs: class (-1 for unknown) and knownness. The threshold
    is an optional input with the calibrated value for default.
    """
    if not onnx and out.suffix != ".onnx":
        msg = _check.must(
            "a name that ends in .onnx, or used with --onnx",
            caller="openset export",
            name="--out",
            got=str(out),
        )
        raise ValueError(msg)
    # Here, not above: the command line must start without the extra.
    from openset.integrations.onnx import export  # noqa: PLC0415

    rejector = Rejector.load(folder)
    export(rejector, out, model, logits=logits, features=features)
    OUT.print(f"{rejector!r} → {out}", highlight=False, soft_wrap=True)
