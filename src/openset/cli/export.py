"""`openset export`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset import _check
from openset.cli.options import keep_inputs, pixels_of, refuse, say_step
from openset.cli.terminal import say


def command(
    rejector: str,
    out: Annotated[Path, typer.Option("--out", "-o")],
    onnx: Annotated[bool, typer.Option("--onnx")] = True,  # noqa: ARG001
    model: str | None = None,
    weights: Path | None = None,
    head: Path | None = None,
    pixels: str = "",
    plugin: list[str] | None = None,
) -> None:
    """Write a rejector as an ONNX graph, to run it without this package.

    Inputs of the graph: logits and, if the detector needs them, features; with --model,
    the inputs of the network. Outputs: class (-1 for unknown) and knownness. The
    threshold is an optional input; its default is the calibrated value.

        openset export rejector/ --onnx --out rejector.onnx
        openset export rejector/ --model network.onnx --out network-open.onnx
        openset export rejector/ --model runs/openauc --out openauc.onnx
        openset export rejector/ --model timm:resnet50 --head head.npz --out open.onnx

    Parameters
    ----------
    out
        File to write, .onnx.
    onnx
        Write an ONNX graph, the only format.
    """
    _check.ending("openset", out, [".onnx"])
    keep_inputs(out, model)
    loaded = openset.Rejector.load(rejector, plugins=plugin or ())
    network: Any = model
    given = {"weights": weights, "head": head, **pixels_of(pixels)}
    is_file = model is None or Path(model).suffix == ".onnx"
    of_networks = "--weights, --head and --pixels are for a network by name"
    refuse(is_file and any(one is not None for one in given.values()), of_networks)
    if model is None:
        say_step(loaded)
    elif not is_file:
        network = openset.extract.load(model, **given)
    openset.integrations.onnx.export(loaded, out, network)
    say(f"wrote {out}: threshold {loaded.threshold}")
    if not is_file and network.preprocessing:
        say(f"the graph takes images: {network.preprocessing}")
