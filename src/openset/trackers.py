"""Experiment trackers: MLflow, Weights & Biases and TensorBoard behind one interface.

Training and studies log to one of them with ``log_to="mlflow"`` (or ``--log-to``).
Where they keep their data is set by their own environment variables:
``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME``, ``WANDB_MODE``, ``WANDB_PROJECT``.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from openset import _check, _extras, _io

_PROJECT = "openset"  # experiment of MLflow, project of W&B, unless they are told
_LONGEST = 500  # characters of a parameter; servers of MLflow refuse longer ones
_PARAMETERS_PER_CALL = 100  # MLflow's limit


class Tracker(Protocol):
    """One run of a tracker."""

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record numbers, such as those of an epoch."""

    def close(self, *, failed: bool = False) -> None:
        """End the run."""


class MLflow:
    """A run of MLflow, through its client: several runs may be open at once."""

    package, extra = "mlflow", "mlflow"

    def __init__(
        self, folder: Path, *, title: str, parameters: Mapping[str, Any]
    ) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415  # slow
        from mlflow.entities import Param  # noqa: PLC0415

        self._client = MlflowClient()
        known = folder / "mlflow-run-id"
        if known.exists():
            self._run = known.read_text("utf-8").strip()
            self._client.update_run(self._run, status="RUNNING")
            return
        experiment = self._experiment()
        self._run = self._client.create_run(experiment, run_name=title).info.run_id
        given = [
            Param(_key(name), str(value)[:_LONGEST])
            for name, value in parameters.items()
        ]
        for first in range(0, len(given), _PARAMETERS_PER_CALL):
            some = given[first : first + _PARAMETERS_PER_CALL]
            self._client.log_batch(self._run, params=some)
        _io.put(known, self._run)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        found = self._client.get_experiment_by_name(name)
        return (
            self._client.create_experiment(name)
            if found is None
            else found.experiment_id
        )

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record numbers in one request."""
        from mlflow.entities import Metric  # noqa: PLC0415  # slow

        now = time.time_ns() // 10**6
        made = [Metric(_key(n), float(v), now, step) for n, v in values.items()]
        self._client.log_batch(self._run, metrics=made)

    def close(self, *, failed: bool = False) -> None:
        """End the run."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class WandB:
    """A run of Weights & Biases."""

    package, extra = "wandb", "wandb"

    def __init__(
        self, folder: Path, *, title: str, parameters: Mapping[str, Any]
    ) -> None:
        import wandb  # noqa: PLC0415  # slow

        known = folder / "wandb-run-id"
        if not known.exists():
            made = secrets.token_hex(8)
            _io.put(known, made)
        is_offline = os.environ.get("WANDB_MODE", "online") != "online"
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            dir=str(folder),
            name=title,
            config=dict(parameters),
            id=known.read_text("utf-8").strip(),
            resume=None if is_offline else "allow",  # ignored offline, with a warning
            reinit="create_new",  # several runs may be open at once
        )

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record numbers."""
        self._run.log(dict(values), step=step)

    def close(self, *, failed: bool = False) -> None:
        """End the run."""
        self._run.finish(exit_code=int(failed))


class TensorBoard:
    """Event files in ``tensorboard/``; parameters are not written."""

    package, extra = "tensorboard", "tensorboard"

    def __init__(
        self, folder: Path, *, title: str, parameters: Mapping[str, Any]
    ) -> None:
        from tensorboard.summary import Writer  # noqa: PLC0415  # slow

        self._writer = Writer(str(folder / "tensorboard"))

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record numbers."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, *, failed: bool = False) -> None:
        """End the run."""
        self._writer.close()


_TRACKERS: dict[str, type[MLflow | WandB | TensorBoard]] = {
    "mlflow": MLflow,
    "wandb": WandB,
    "tensorboard": TensorBoard,
}
NAMES = tuple(_TRACKERS)
"""Names of the trackers."""


def check(caller: str, name: str) -> None:
    """Raise unless there is a tracker of that name, and it is installed."""
    kind = _TRACKERS[_check.one_of(caller, "log_to", name, NAMES)]
    _extras.optional(caller, kind.package, name=kind.extra)


def start(
    name: str, *, folder: Path, title: str, parameters: Mapping[str, Any]
) -> Tracker:
    """Start a run, or continue the one that was started with this folder.

    Parameters
    ----------
    name
        One of `NAMES`.
    folder
        A folder for this run only. The tracker's local files are written to it.
    title
        Name of the run, as shown by the tracker.
    parameters
        Plain values; nested ones get names such as ``recipe.lr``.
    """
    check("trackers.start", name)
    folder.mkdir(parents=True, exist_ok=True)
    return _TRACKERS[name](folder, title=title, parameters=flat(parameters))


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Keep what is a number.

    Examples
    --------
    >>> numbers({"loss": 0.5, "rule": "msp", "done": True, "low": None})
    {'loss': 0.5}
    """
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Join the names of nested values by dots; lists become JSON.

    Examples
    --------
    >>> flat({"recipe": {"lr": 0.1}, "known": [0, 1], "seed": 3})
    {'recipe.lr': 0.1, 'known': '[0, 1]', 'seed': 3}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            is_list = isinstance(value, list | tuple)
            found[f"{prefix}{name}"] = json.dumps(value) if is_list else value
    return found


def _key(name: str) -> str:
    """Return a name that MLflow accepts."""
    return re.sub(r"[^\w\-. /:]", "_", name)
