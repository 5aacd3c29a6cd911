"""Runs of MLflow, Weights & Biases and TensorBoard: what ``log_to=`` names.

Where they keep their data is set by their own environment variables:
``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME``, ``WANDB_MODE``, ``WANDB_PROJECT``.
A run that is started again in its folder is continued.
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openset import _check, _io
from openset._optional import optional


class MLflow:
    """A run of MLflow, through its client: several runs may be open at once."""

    def __init__(self, folder: Path, title: str, given: Mapping[str, Any]) -> None:
        self._client = optional("mlflow").MlflowClient()
        known = folder / "mlflow-run-id"
        if known.exists():
            self._run = known.read_text("utf-8")
            self._client.update_run(self._run, status="RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "openset")
        found = self._client.get_experiment_by_name(name)
        place = found.experiment_id if found else self._client.create_experiment(name)
        self._run = self._client.create_run(place, run_name=title).info.run_id
        for key, value in _flat(given).items():  # servers refuse longer values
            self._client.log_param(self._run, _key(key), str(value)[:500])
        _io.put(known, self._run)

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Record what is a number."""
        for name, value in _numbers(values).items():
            self._client.log_metric(self._run, _key(name), value, step=step)

    def close(self, *, failed: bool) -> None:
        """End the run."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class WandB:
    """A run of Weights & Biases."""

    def __init__(self, folder: Path, title: str, given: Mapping[str, Any]) -> None:
        known = folder / "wandb-run-id"
        if not known.exists():
            _io.put(known, secrets.token_hex(8))
        is_offline = os.environ.get("WANDB_MODE", "online") != "online"
        self._run = optional("wandb").init(
            project=os.environ.get("WANDB_PROJECT", "openset"),
            dir=str(folder),
            name=title,
            config=_flat(given),
            id=known.read_text("utf-8"),
            resume=None if is_offline else "allow",  # ignored offline, with a warning
            reinit="create_new",  # several runs may be open at once
        )

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Record what is a number."""
        self._run.log(_numbers(values), step=step)

    def close(self, *, failed: bool) -> None:
        """End the run."""
        self._run.finish(exit_code=int(failed))


class TensorBoard:
    """Event files in ``tensorboard/``; parameters are not written."""

    def __init__(self, folder: Path, title: str, given: Mapping[str, Any]) -> None:
        del title, given
        summary = optional("tensorboard.summary")
        self._writer = summary.Writer(str(folder / "tensorboard"))

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Record what is a number."""
        for name, value in _numbers(values).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, *, failed: bool) -> None:
        """End the run."""
        del failed
        self._writer.close()


TRACKERS = {"mlflow": MLflow, "wandb": WandB, "tensorboard": TensorBoard}
"""What makes a run, from its folder, title and parameters."""


def need_tracker(caller: str, name: str) -> None:
    """Raise unless there is a tracker of that name, and it is installed."""
    _check.one_of(caller, "log_to", name, list(TRACKERS))
    optional(name, name)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {n: float(v) for n, v in values.items() if type(v) in {int, float}}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Join the names of nested values by dots."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        is_nested = isinstance(value, Mapping)
        found |= (
            _flat(value, f"{prefix}{name}.") if is_nested else {prefix + name: value}
        )
    return found


def _key(name: str) -> str:
    """Return a name that MLflow accepts."""
    return re.sub(r"[^\w\-. /:]", "_", name)
