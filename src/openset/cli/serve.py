"""`openset serve`."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset.cli.options import Invalid, pixels_of, refuse, say_step
from openset.cli.terminal import warn


def command(
    rejector: str,
    model: str | None = None,
    weights: Path | None = None,
    head: Path | None = None,
    pixels: str = "",
    invalid: Invalid = "error",
    name: str = "openset",
    log: Path | None = None,
    log_rate: float = 0.01,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    max_megabytes: Annotated[float, typer.Option(min=0.001)] = 32,
    workers: Annotated[int, typer.Option(min=1)] = 1,
    plugin: list[str] | None = None,
) -> None:
    """Serve a rejector over HTTP, with a web page at / to try it.

    POST /predict takes batches as JSON, /predict/npz larger ones as .npz, and
    /predict/images, with a network for images, PNG and JPEG. /v2 is the Open Inference
    Protocol (KServe, Triton). GET /metrics is for Prometheus, GET /healthz for health
    checks, GET /docs describes the interface. TLS, login and limits on clients are the
    work of a reverse proxy.

        openset serve rejector/ --port 8000
        openset serve rejector/ --model timm:resnet50 --head head.npz --host 0.0.0.0
        openset serve rejector/ --workers 4 --log traffic/ --log-rate 0.01
        curl localhost:8000/predict/images -F files=@photo.png
        curl localhost:8000/predict --json '{"logits": [[4, 0, 1]]}'
        curl localhost:8000/predict/npz --data-binary @outputs.npz

    Parameters
    ----------
    name
        Name of the model in requests of the Open Inference Protocol.
    log
        Folder to log a random part of the traffic to, for openset watch: files
        traffic-*.npz with the network's outputs.
    log_rate
        Share of the samples that are logged.
    host
        Address to listen on; 0.0.0.0 for all interfaces.
    port
        Port; 0 chooses a free one.
    max_megabytes
        Largest request body, in MiB.
    workers
        Number of server processes; each loads the rejector and the network.
    """
    # Errors and cautions are reported once, not by each worker.
    loaded = openset.Rejector.load(rejector, plugins=plugin or ())
    for caution in loaded.cautions:
        warn(f"{caution.code} {caution.message}")
    if model is None:
        say_step(loaded)
    options = {
        "invalid": invalid,
        "name": name,
        "log": log,
        "log_rate": log_rate,
        "max_bytes": round(max_megabytes * 2**20),
    }
    how = {"weights": weights, "head": head, **pixels_of(pixels)}
    given = any(value is not None for value in how.values())
    refuse(model is None and given, "--weights, --head and --pixels need --model")
    make = partial(_made, rejector, tuple(plugin or ()), model, how, options)
    openset.serve.run(make, host=host, port=port, workers=workers)


def _made(place: str, plugins: Any, model: str | None, how: Any, options: Any) -> Any:
    network = None if model is None else openset.extract.load(model, **how)
    rejector = openset.Rejector.load(place, plugins=plugins)
    version = hashlib.sha256(rejector.threshold.to_json().encode()).hexdigest()[:16]
    return openset.serve.app(rejector, network=network, version=version, **options)
