"""A rejector as a model of MLflow: saved, logged and loaded by MLflow itself.

MLflow gets the folder that `Rejector.save` writes (JSON and arrays, no pickle) and the
name of this module, whose :func:`_load_pyfunc` opens it.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openset._optional import needs
from openset._version import __version__
from openset.outputs import Outputs
from openset.rejector import Rejector, need_rejector

with needs("mlflow"):
    import mlflow
    import pandas as pd

__all__ = ["Model", "log_model", "save_model"]


class Model:
    """The model behind ``mlflow.pyfunc.load_model``; it returns decisions as a table.

    Examples
    --------
    >>> from openset import detectors
    >>> known = Outputs(logits=[[3.0, 0.0], [0.0, 2.0]], labels=[0, 1])
    >>> fitted = detectors.MaxLogit().fit(known)
    >>> model = Model(Rejector.calibrate(fitted, known=known, objective="at_tpr"))
    >>> model.predict({"logits": [[0.0, 5.0], [1.0, 1.0]]})["name"].tolist()
    ['1', 'unknown']
    """

    def __init__(self, rejector: Rejector) -> None:
        need_rejector("Model", rejector)
        self.rejector = rejector

    def predict(
        self, model_input: Any, params: Mapping[str, Any] | None = None
    ) -> "pd.DataFrame":
        """Return one row per sample, as ``Rejector.rows`` has it.

        Parameters
        ----------
        model_input
            A mapping with `logits`, `features` or both, shapes (n, C) and (n, d), or a
            table with such columns, one list per row.
        params
            Not used; MLflow passes it.

        Returns
        -------
        pandas.DataFrame
            `decision` (index of a class, or -1), `name` (of the class, or "unknown"),
            `predicted` (class before rejection), `known` (larger = more known) and
            `margin` (above the threshold); if the rejector has prediction sets also
            `set`, lists of names.
        """
        # A column of a table has one list per sample.
        arrays = {
            name: np.array(list(model_input[name]))
            for name in ("logits", "features")
            if name in model_input
        }
        # They are taken for outputs as the rejector needs them.
        outputs = Outputs(**arrays, input_step=self.rejector.input_step)
        decided = self.rejector.decide(outputs)
        return pd.DataFrame(self.rejector.rows(decided, outputs))


def _load_pyfunc(path: str) -> Model:
    """Open the folder of a model; MLflow calls this by name."""
    return Model(Rejector.load(path))


def save_model(rejector: Rejector, path: str | Path, **options: Any) -> Path:
    """Write a rejector as an MLflow model; ``mlflow.pyfunc.load_model`` opens it.

    Parameters
    ----------
    rejector
        What :meth:`openset.Rejector.calibrate` returned.
    path
        A new folder.
    **options
        Passed to ``mlflow.pyfunc.save_model``, such as `signature`.
    """
    _written(mlflow.pyfunc.save_model, rejector, path=str(path), **options)
    return Path(path)


def log_model(rejector: Rejector, name: str = "rejector", **options: Any) -> Any:
    """Log a rejector to the active run of MLflow; return MLflow's `ModelInfo`.

    Parameters
    ----------
    rejector
        What :meth:`openset.Rejector.calibrate` returned.
    name
        Name of the model in MLflow.
    **options
        Passed to ``mlflow.pyfunc.log_model``, such as `registered_model_name`.
    """
    return _written(mlflow.pyfunc.log_model, rejector, name=name, **options)


def _written(action: Callable[..., Any], rejector: Rejector, **options: Any) -> Any:
    need_rejector(action.__name__, rejector)
    threshold = rejector.threshold
    facts = {
        "detector": repr(rejector.fitted.detector),
        "objective": threshold.method,
        "alpha": threshold.alpha,
        "threshold": str(threshold.value),  # JSON has no infinity
        "calibration_samples": threshold.n._asdict(),
        "cautions": list(rejector.report.codes),
        "openset": __version__,
    }
    settings: dict[str, Any] = {
        "loader_module": __name__,
        "pip_requirements": [f"openset[mlflow]=={__version__}"],
        "metadata": facts,
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = rejector.save(Path(temporary) / "rejector")
        return action(data_path=str(folder), **settings | options)
