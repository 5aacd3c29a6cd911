"""`openset serve`."""

import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openset import extract, serve
from openset.cli._cautions import print_cautions, print_step
from openset.cli._console import ERRORS
from openset.cli._detector_options import Plugins
from openset.cli._errors_in_options import (
    Head,
    Mean,
    RejectorPlace,
    Side,
    Std,
    Weights,
    naming,
    numbers,
)
from openset.rejector import Rejector

if TYPE_CHECKING:
    from fastapi import FastAPI

EPILOG = """[bold]Examples[/bold]

openset serve rejector/ --port 8000

openset serve rejector/ --model model.onnx --host 0.0.0.0

openset serve rejector/ --model runs/openauc

openset serve rejector/ --model timm:resnet50 --head head.npz

openset serve rejector/ --workers 4 --log traffic/ --log-rate 0.01

curl localhost:8000/predict/images -F files=@photo.png

curl localhost:8000/predict -H 'Content-Type: application/json' \\
    -d '{"logits": [[4, 0, 1]]}'

curl localhost:8000/predict/npz --data-binary @outputs.npz"""


def command(
    folder: RejectorPlace,
    model: Annotated[
        str | None,
        typer.Option(
            help="Network to run before the rejector; clients then post images or "
            "inputs of the network (default: none, clients post its outputs). A "
            "folder written by openset train; an ONNX file; timm:NAME, "
            "torchvision:NAME, hf:NAME or package.module:name.",
        ),
    ] = None,
    weights: Weights = None,
    head: Head = None,
    side: Side = None,
    mean: Mean = "",
    std: Std = "",
    invalid: Annotated[
        str,
        typer.Option(
            metavar="error|reject",
            help="What to do with samples that have NaN, no single largest logit, or "
            "are no images: error (refuse the request, 422), or reject (answer them "
            "with unknown, marked as invalid, and the others as if alone).",
        ),
    ] = "error",
    name: Annotated[
        str,
        typer.Option(
            help="Name of the model in requests of the Open Inference Protocol."
        ),
    ] = "openset",
    log: Annotated[
        Path | None,
        typer.Option(
            help="Folder to log a random part of the traffic to, for openset watch: "
            "files traffic-*.npz with the network's outputs (default: no log).",
        ),
    ] = None,
    log_rate: Annotated[
        float, typer.Option(help="For --log: share of the samples that are logged.")
    ] = 0.01,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")
    ] = 8000,
    max_megabytes: Annotated[
        float, typer.Option(min=0.001, help="Largest request body, in MiB.")
    ] = serve.MAX_BYTES / 2**20,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of server processes; each loads the rejector and the network.",
        ),
    ] = 1,
    plugin: Plugins = None,
) -> None:
    """Serve a rejector over HTTP, with a web page at / to try it.

    POST /predict takes batches as JSON, /predict/npz larger ones as .npz, and
    /predict/images, with a network for images, PNG and JPEG. /v2 is the Open Inference
    Protocol (KServe, Triton). GET /metrics is for Prometheus, GET /healthz for health
    checks, GET /docs describes the interface. TLS, login and limits on clients are the
    work of a reverse proxy.
    """
    # Errors and cautions are reported once, not by each worker.
    with naming("openset serve", {"plugins": "--plugin"}):
        rejector = Rejector.load(folder, plugins=plugin or ())
    print_cautions(rejector, ERRORS)
    if model is None:
        print_step(rejector, ERRORS)
    options: dict[str, Any] = {
        "invalid": invalid,
        "name": name,
        "log": log,
        "log_rate": log_rate,
        "max_bytes": round(max_megabytes * 2**20),
    }
    pixels = {"mean": mean, "std": std}
    network: dict[str, Any] = {"weights": weights, "head": head, "side": side}
    for key, text in pixels.items():
        given = numbers("openset serve", f"--{key}", text) if text else None
        network[key] = given
    make = partial(_application, folder, tuple(plugin or ()), model, network, options)
    named = [*options, *network, "host", "port", "workers"]
    with naming("openset serve", {n: f"--{n.replace('_', '-')}" for n in named}):
        serve.run(make, host=host, port=port, workers=workers)


def _application(
    folder: str,
    plugins: tuple[str, ...],
    model: str | None,
    network: dict[str, Any],
    options: dict[str, Any],
) -> "FastAPI":
    found = None if model is None else extract.load(model, **network)
    rejector = Rejector.load(folder, plugins=plugins)
    version = hashlib.sha256(rejector.threshold.to_json().encode()).hexdigest()[:16]
    return serve.app(rejector, network=found, version=version, **options)
