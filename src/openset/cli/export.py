"""`openset export`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from openset import _check
from openset.cli._cautions import print_cautions
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Plugins
from openset.cli._keys import Verify, read_key
from openset.cli._options import RejectorPlace, naming
from openset.rejector import Rejector

EPILOG = """[bold]Examples[/bold]

openset export rejector/ --onnx --out rejector.onnx

openset export rejector/ --onnx --model network.onnx --out network-open.onnx

openset export rejector/ --onnx --model runs/openauc --out openauc.onnx"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "model": "--model",
    "logits": "--logits",
    "features": "--features",
    "key": "--verify",
    "plugins": "--plugin",
}


@naming("openset export", _OPTIONS)
def command(
    folder: RejectorPlace,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Write an ONNX graph (the only format).")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Network to combine with the rejector in one graph: an ONNX "
            "file, or a folder written by openset train."
        ),
    ] = None,
    logits: Annotated[
        str | None,
        typer.Option(help="Name of the network's output that holds the logits."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Name of the input tensor of the network's last linear layer."
        ),
    ] = None,
    plugin: Plugins = None,
    verify: Verify = None,
) -> None:
    """Write a rejector as an ONNX graph, to run it without this package.

    Inputs of the graph: logits and, if the detector needs them, features; with --model,
    the inputs of the network. Outputs: class (-1 for unknown), knownness, and set
    (samples by classes) if the rejector has prediction sets. The threshold is an
    optional input; its default is the calibrated value.
    """
    if not onnx and out.suffix != ".onnx":
        msg = _check.must(
            "a name that ends in .onnx, or used with --onnx",
            caller="openset export",
            name="--out",
            got=str(out),
        )
        raise ValueError(msg)
    # Imported here: the extra may be missing.
    from openset.integrations.onnx import export  # noqa: PLC0415

    rejector = Rejector.load(folder, plugins=plugin or (), key=read_key(verify))
    print_cautions(rejector, ERRORS)
    network, example = _network(model)
    export(rejector, out, network, example=example, logits=logits, features=features)
    OUT.print(f"{rejector!r} → {out}", highlight=False, soft_wrap=True)


def _network(path: Path | None) -> tuple[Any, Any]:
    """Return the network to export; of a trained one, also example inputs."""
    if path is None or not path.is_dir():
        return path, None
    from openset.train import Trained  # noqa: PLC0415

    network = Trained.load(path).model()
    return network, network.example
