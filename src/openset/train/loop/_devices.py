"""Devices, precision and processes, through Lightning Fabric."""

import atexit
import logging
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from openset import _check, _extras
from openset.train.jobs._job import Execution
from openset.train.methods import Method

_CALLER = "train.fit"


def launch(execution: Execution, methods: Iterable[type[Method]]) -> Any:
    """Launch Lightning Fabric for training by these methods."""
    has_gpu = torch.cuda.is_available()
    accelerator, devices = execution.accelerator, execution.devices
    if accelerator in ("cuda", "gpu") and not has_gpu:
        msg = _check.must(
            "available",
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
    _check_processes(execution)
    # Its notes on precision are not news: the precision was chosen.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    # Imported here: it takes seconds, and extraction does without.
    library: Any = _extras.optional(_CALLER, "lightning_fabric", name="torch")
    fabric = library.Fabric(
        accelerator=accelerator if accelerator != "auto" or has_gpu else "cpu",
        devices=devices,
        num_nodes=execution.nodes,
        precision=precision_of(execution),
        strategy=_strategy(methods) if devices * execution.nodes > 1 else "auto",
    )
    fabric.launch()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        _leave_at_exit()
    return fabric


@cache
def _leave_at_exit() -> None:
    """Leave the group of processes before the interpreter ends.

    Lightning does so for GPUs only. Else threads of the group may be running when their
    memory is freed, which ends the process with SIGABRT after all work was done.
    """
    atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def precision_of(execution: Execution) -> str:
    """Return the given precision, or the default one of the device."""
    if execution.precision is not None:
        return execution.precision
    is_gpu = execution.accelerator != "cpu" and torch.cuda.is_available()
    return "bf16-mixed" if is_gpu and torch.cuda.is_bf16_supported() else "32-true"


def _check_processes(execution: Execution) -> None:
    devices, nodes = execution.devices, execution.nodes
    if nodes > 1 and not {"WORLD_SIZE", "SLURM_NTASKS"} & set(os.environ):
        msg = _check.must(
            "1 unless processes are started by torchrun or Slurm",
            caller=_CALLER,
            name="nodes",
            got=nodes,
            remedy=f"On every machine, start: torchrun --nnodes {nodes} --node-rank 0 "
            "... -m openset train ..., with the machine's number as --node-rank",
        )
        raise ValueError(msg)
    started = int(os.environ.get("WORLD_SIZE", devices * nodes))
    if started != devices * nodes:
        msg = _check.must(
            f"{started}, the number of processes that torchrun started",
            caller=_CALLER,
            name="devices times nodes",
            got=f"{devices} times {nodes}",
            remedy="Pass the same numbers to torchrun and to the training",
        )
        raise ValueError(msg)


def _strategy(methods: Iterable[type[Method]]) -> str:
    # Updates of a generator, say, leave most parameters without a gradient.
    has_parts = any(method.parts for method in methods)
    return "ddp_find_unused_parameters_true" if has_parts else "ddp"
