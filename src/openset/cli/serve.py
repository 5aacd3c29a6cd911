"""`openset serve`."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openset import _check, _locks, serve
from openset.cli._cautions import print_cautions, print_step
from openset.cli._console import ERRORS
from openset.cli._detector_options import Plugins
from openset.cli._options import (
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

curl localhost:8000/predict -H 'Content-Type: image/png' \\
    --data-binary @photo.png

curl localhost:8000/predict -H 'Content-Type: application/json' \\
    -d '{"logits": [[4, 0, 1]]}'

curl localhost:8000/predict -H 'Content-Type: application/x-npy' \\
    --data-binary @logits.npy"""

_MOST = 2**20  # MiB, a terabyte


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
    mean: Mean = "0,0,0",
    std: Std = "1,1,1",
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
            "files traffic-000001.npz with the network's outputs (default: no log).",
        ),
    ] = None,
    log_rate: Annotated[
        float, typer.Option(help="For --log: share of the samples that are logged.")
    ] = serve.LOG_RATE,
    log_files: Annotated[
        int,
        typer.Option(
            min=1,
            help="For --log: number of files kept, with at most 4096 "
            "samples each; older files are deleted.",
        ),
    ] = serve.LOG_FILES,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")
    ] = 8000,
    max_megabytes: Annotated[
        float, typer.Option(min=0.001, help="Largest request body, in MiB.")
    ] = serve.MAX_BYTES / 2**20,
    max_json_megabytes: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="Largest request body of JSON, in MiB; larger batches must be sent as "
            ".npz or .npy.",
        ),
    ] = serve.MAX_JSON_BYTES / 2**20,
    max_megabytes_in_flight: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="Largest total size of the request bodies held at once, in MiB; "
            "beyond it, requests are answered with 503.",
        ),
    ] = serve.MAX_IN_FLIGHT / 2**20,
    stop_seconds: Annotated[
        float,
        typer.Option(
            min=1,
            max=serve.LONGEST_STOP,
            help="Seconds to wait for open requests when the server is stopped.",
        ),
    ] = 30.0,
    idle_seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Seconds a client may wait between two requests, or take to send the "
            "headers of one, before its connection is closed.",
        ),
    ] = 10.0,
    max_connections: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of connections per process (default: a little below "
            "the system's limit on open files).",
        ),
    ] = None,
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

    POST /predict takes batches as JSON, .npy or .npz; with a network for images also
    PNG and JPEG. /v2 is the Open Inference Protocol (KServe, Triton). GET /metrics is
    for Prometheus, GET /healthz for health checks, GET /openapi.json describes the
    interface. At SIGTERM, SIGHUP or Ctrl-C the server answers the requests it has
    accepted, then stops.
    """
    # Errors and cautions are reported once, not by each worker.
    with naming("openset serve", {"plugins": "--plugin"}):
        rejector = Rejector.load(folder, plugins=plugin or ())
    print_cautions(rejector, ERRORS)
    if model is None:
        print_step(rejector, ERRORS)
    options: dict[str, Any] = {
        "model": model,
        "weights": weights,
        "head": head,
        "side": side,
        "mean": numbers("openset serve", "--mean", mean),
        "std": numbers("openset serve", "--std", std),
        "invalid": invalid,
        "name": name,
        "log": log,
        "log_rate": log_rate,
        "log_files": log_files,
        "max_bytes": _bytes("--max-megabytes", max_megabytes),
        "max_json_bytes": _bytes("--max-json-megabytes", max_json_megabytes),
        "max_in_flight": _bytes("--max-megabytes-in-flight", max_megabytes_in_flight),
    }
    named = [name for name in options if not name.startswith("max_")]
    named += ["host", "port", "workers"]
    make = partial(_application, _stamp(model), plugins=tuple(plugin or ()), **options)
    with (
        naming("openset serve", {n: f"--{n.replace('_', '-')}" for n in named}),
        ExitStack() as kept,
    ):
        # A worker that replaces another one serves the same rejector, whatever was
        # saved in its place since.
        copy = kept.enter_context(_copied(rejector))
        application = partial(make, copy)
        if workers == 1:
            application = partial(_read_once, make, copy, kept)
        serve.run(
            application,
            host=host,
            port=port,
            stop_seconds=stop_seconds,
            idle_seconds=idle_seconds,
            max_connections=max_connections,
            workers=workers,
        )


@contextmanager
def _copied(rejector: Rejector) -> Iterator[Path]:
    with _locks.temporary_folder("openset-rejector-") as temporary:
        yield rejector.save(temporary / "rejector")


def _read_once(
    make: Callable[[Path], "FastAPI"], copy: Path, kept: ExitStack
) -> "FastAPI":
    """Make the application of the only process, and remove the copy it was read from.

    A server that is killed can remove nothing.
    """
    made = make(copy)
    kept.close()
    return made


def _bytes(name: str, megabytes: float) -> int:
    limit = _check.number("openset serve", name, megabytes, low=0, high=_MOST)
    return round(limit * 2**20)


def _application(
    stamp: str,
    folder: Path,
    *,
    plugins: tuple[str, ...],
    model: str | None,
    **options: Any,
) -> "FastAPI":
    if _stamp(model) != stamp:  # this process replaces one that died
        msg = (
            f"openset serve: {model} must be the network the other processes serve, "
            "got one written since. Start the server again to serve it"
        )
        raise ValueError(msg)
    rejector = Rejector.load(folder, plugins=plugins)
    version = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()[:16]
    return serve.app(rejector, model=model, version=version, **options)


def _stamp(model: str | None) -> str:
    """Return what changes when the files of a network are written again."""
    if model is None or not Path(model).exists():
        return ""
    path = Path(model)
    found = (path / "trained.json") if path.is_dir() else path
    if not found.exists():
        return ""
    about = found.stat()
    return f"{about.st_size} {about.st_mtime_ns}"
