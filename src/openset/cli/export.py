"""`openset export`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from openset import _check
from openset.cli._cautions import print_cautions, print_step
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Plugins
from openset.cli._errors_in_options import (
    Head,
    RejectorPlace,
    Side,
    Weights,
    keep_inputs,
    naming,
)
from openset.rejector import Rejector

EPILOG = """[bold]Examples[/bold]

openset export rejector/ --onnx --out rejector.onnx

openset export rejector/ --onnx --model network.onnx --out network-open.onnx

openset export rejector/ --onnx --model runs/openauc --out openauc.onnx

openset export rejector/ --onnx --model timm:resnet50 --head head.npz \\
    --out resnet50-open.onnx"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "model": "--model",
    "weights": "--weights",
    "head": "--head",
    "side": "--side",
    "logits": "--logits",
    "features": "--features",
    "plugins": "--plugin",
}


@naming("openset export", _OPTIONS)
def command(
    folder: RejectorPlace,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    onnx: Annotated[
        bool,
        typer.Option(
            "--onnx",
            help="Write an ONNX graph. It is the only "
            "format, so this may be left out if --out ends in .onnx.",
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Network to put before the rejector, in the same graph (default: "
            "none, inputs are its outputs): an ONNX file; a folder written by "
            "openset train; timm:NAME, torchvision:NAME, hf:NAME or "
            "package.module:name."
        ),
    ] = None,
    weights: Weights = None,
    head: Head = None,
    side: Side = None,
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
    keep_inputs("openset export", out, model, Path(folder) / "manifest.json")
    # Imported here: the extra may be missing.
    from openset.integrations.onnx import export  # noqa: PLC0415

    rejector = Rejector.load(folder, plugins=plugin or ())
    print_cautions(rejector, ERRORS)
    if model is None:
        print_step(rejector, ERRORS)
    network, example, prepared = _network(model, weights=weights, head=head, side=side)
    export(rejector, out, network, example=example, logits=logits, features=features)
    OUT.say(escape(f"wrote {out}: threshold {rejector.threshold}"))
    if prepared:
        OUT.say(f"the graph takes images: {prepared}")


def _network(name: str | None, **options: Any) -> tuple[Any, Any, str]:
    """Return the network to export, an example, and how its images are prepared.

    Of an ONNX file there is the file alone.
    """
    if name is None or Path(name).is_file() or name.endswith(".onnx"):
        given = [f"--{key}" for key, value in options.items() if value is not None]
        if given:
            msg = f"openset export: {given[0]} can only be used with a network by name"
            raise typer.BadParameter(msg)
        return name, None, ""
    from openset import extract  # noqa: PLC0415  # the extra may be missing

    found = extract.load(name, **options)
    return *found.traced(), found.preprocessing
