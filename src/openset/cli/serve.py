"""`openset serve`."""

import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openset import _check, serve
from openset.cli._cautions import print_cautions
from openset.cli._detector_options import Plugins
from openset.cli._keys import Verify, read_key
from openset.cli._options import naming
from openset.cli._tables import ERRORS
from openset.rejector import Rejector

if TYPE_CHECKING:
    from fastapi import FastAPI

EPILOG = """[bold]Examples[/bold]

openset serve rejector/ --port 8000

openset serve rejector/ --model model.onnx --host 0.0.0.0

openset serve rejector/ --model runs/openauc

openset serve rejector/ --workers 4

curl localhost:8000/predict -H 'Content-Type: application/json' \\
    -d '{"logits": [[4, 0, 1]]}'

curl localhost:8000/predict -H 'Content-Type: application/x-npy' \\
    --data-binary @logits.npy"""

_MOST = 2**20  # MiB, a terabyte


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="REJECTOR", help="Folder written by openset calibrate."),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            help="Network to run before the rejector; clients then post inputs of the "
            "network. An ONNX file (outputs: logits and, if the detector needs them, "
            "features), or a folder written by openset train.",
        ),
    ] = None,
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
            help="Longest wait, in seconds, for open requests when stopping.",
        ),
    ] = 30.0,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of server processes; each loads the rejector and the network.",
        ),
    ] = 1,
    plugin: Plugins = None,
    verify: Verify = None,
) -> None:
    """Serve a rejector over HTTP, with a page to try it at /.

    POST /predict takes batches as JSON, .npy or .npz. GET /metrics is for Prometheus,
    GET /healthz for health checks, GET /openapi.json describes the interface. At
    SIGTERM, SIGHUP or Ctrl-C the server answers the requests it has accepted, then
    stops.
    """
    # Errors and cautions are reported once, not by each worker.
    print_cautions(
        Rejector.load(folder, plugins=plugin or (), key=read_key(verify)), ERRORS
    )
    make = partial(
        _application,
        folder,
        _digest(folder) if workers > 1 else None,
        plugins=tuple(plugin or ()),
        key=read_key(verify),
        model=model,
        max_bytes=_bytes("--max-megabytes", max_megabytes),
        max_json_bytes=_bytes("--max-json-megabytes", max_json_megabytes),
        max_in_flight=_bytes("--max-megabytes-in-flight", max_megabytes_in_flight),
    )
    options = ("model", "host", "port", "workers")
    with naming("openset serve", {name: f"--{name}" for name in options}):
        serve.run(
            make, host=host, port=port, stop_seconds=stop_seconds, workers=workers
        )


def _bytes(name: str, megabytes: float) -> int:
    limit = _check.number("openset serve", name, megabytes, low=0, high=_MOST)
    return round(limit * 2**20)


def _application(
    folder: Path,
    digest: str | None,
    *,
    plugins: tuple[str, ...],
    key: bytes | None,
    **options: Any,
) -> "FastAPI":
    rejector = Rejector.load(folder, plugins=plugins, key=key)
    if digest is not None and _digest(folder) != digest:
        # This process replaces one that died.
        msg = (
            f"openset serve: {folder} must be the rejector the other processes serve, "
            "got one saved since. Start the server again to serve it"
        )
        raise ValueError(msg)
    return serve.app(rejector, **options)


def _digest(folder: Path) -> str:
    """Return a hash of the rejector: its manifest has the hashes of all arrays."""
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
