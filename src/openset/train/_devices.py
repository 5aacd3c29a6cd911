"""Where training runs: devices, precision and processes, through Lightning Fabric."""

import logging
import os
from typing import Any

import torch

from openset import _check, _io
from openset.train.methods import find

_CALLER = "train.fit"
_PRECISIONS = ("32-true", "bf16-mixed")
_ACCELERATORS = ("auto", "cpu", "cuda", "gpu")


def make_fabric(
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    precision: str | None = None,
    *,
    method: str = "softmax",
) -> Any:
    """Launch Lightning Fabric with the precision that suits the device.

    Several processes exchange gradients in the way that `method` needs.
    """
    strategy = _strategy(method)
    _check.one_of(_CALLER, "accelerator", accelerator, _ACCELERATORS)
    devices = _check.positive_int(_CALLER, "devices", devices)
    nodes = _check.positive_int(_CALLER, "nodes", nodes)
    has_gpu = torch.cuda.is_available()
    if accelerator in ("cuda", "gpu") and not has_gpu:
        msg = _check.must(
            "one that is there",
            caller=_CALLER,
            name="accelerator",
            got=f"{accelerator!r} on a machine without a GPU",
            remedy="Leave it out, or use accelerator='cpu'",
        )
        raise ValueError(msg)
    if accelerator != "cpu" and has_gpu and devices > torch.cuda.device_count():
        msg = _check.must(
            f"at most {torch.cuda.device_count()}, the GPUs of this machine",
            caller=_CALLER,
            name="devices",
            got=devices,
        )
        raise ValueError(msg)
    if precision is None:
        on_gpu = accelerator != "cpu" and has_gpu and torch.cuda.is_bf16_supported()
        precision = "bf16-mixed" if on_gpu else "32-true"
    _check.one_of(_CALLER, "precision", precision, _PRECISIONS)
    if nodes > 1 and not {"WORLD_SIZE", "SLURM_NTASKS"} & set(os.environ):
        msg = _check.must(
            "1 where one process is started by itself",
            caller=_CALLER,
            name="nodes",
            got=nodes,
            remedy="Start one on every host, which find each other: torchrun --nnodes "
            f"{nodes} --node-rank 0 ... -m openset train ...",
        )
        raise ValueError(msg)
    many = devices * nodes > 1
    started = int(os.environ.get("WORLD_SIZE", devices * nodes))
    if started != devices * nodes:
        msg = _check.must(
            f"{started}, the processes that were started",
            caller=_CALLER,
            name="devices times nodes",
            got=f"{devices} times {nodes}",
            remedy="Give devices= and nodes= as torchrun was started with",
        )
        raise ValueError(msg)
    # It tells which precision is used, and how to trade it for speed: not news here.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    # It takes seconds to import, for which whoever only takes outputs should not wait.
    library: Any = _io.optional(_CALLER, "lightning_fabric", name="torch")
    fabric = library.Fabric(
        accelerator=accelerator if accelerator != "auto" or has_gpu else "cpu",
        devices=devices,
        num_nodes=nodes,
        precision=precision,
        strategy=strategy if many else "auto",
    )
    fabric.launch()
    fabric.asked_precision = precision  # for the spec
    return fabric


def _strategy(method: str) -> str:
    phases = {phase for phases in find(method).passes for phase in phases}
    # Updates of a generator, say, leave most parameters without a gradient.
    return "ddp" if len(phases) == 1 else "ddp_find_unused_parameters_true"
