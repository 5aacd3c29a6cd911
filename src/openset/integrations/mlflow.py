"""A rejector as a model of MLflow: saved, logged and loaded by MLflow itself.

MLflow gets the folder that `Rejector.save` writes (JSON and arrays, no pickle) and the
name of this module, whose :func:`_load_pyfunc` opens it.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check
from openset._optional import needs
from openset._version import __version__
from openset.outputs import Outputs, replaced
from openset.rejector import Rejector, need_rejector

_CALLER = "openset.integrations.mlflow"

with needs("mlflow"):
    import mlflow
    import pandas as pd

__all__ = ["Model", "log_model", "save_model"]

_INPUTS = ("logits", "features")


class Model:
    """The model behind ``mlflow.pyfunc.load_model``; it returns decisions as a table.

    Examples
    --------
    >>> from openset import detectors
    >>> known = Outputs(logits=[[3.0, 0.0], [0.0, 2.0]], labels=[0, 1])
    >>> fitted = detectors.MaxLogit().fit(known)
    >>> model = Model(Rejector.calibrate(fitted, known=known, objective="at_tpr"))
    >>> model.predict({"logits": [[0.0, 5.0], [1.0, 1.0]]})["accepted"].tolist()
    [True, False]
    """

    def __init__(self, rejector: Rejector) -> None:
        need_rejector("Model", rejector)
        self.rejector = rejector

    def predict(
        self, model_input: Any, params: Mapping[str, Any] | None = None
    ) -> "pd.DataFrame":
        """Return one row per sample: answer, label, knownness and whether accepted.

        Parameters
        ----------
        model_input
            A mapping with `logits`, `features` or both, shapes (n, C) and (n, d); a
            table with such columns, one list per row; or, for a detector that uses
            only one of them, an array or a table of numbers. Columns of logits that
            have the names of the classes may be in any order.
        params
            Not used; MLflow passes it.

        Returns
        -------
        pandas.DataFrame
            `answer` (name of a class, or "unknown"), `label` (its index, or -1),
            `knownness` (larger = more known) and `accepted`; if the rejector has
            prediction sets also `set`, lists of names.
        """
        outputs = model_input
        if not isinstance(outputs, Outputs):
            # Arrays are taken for outputs as the rejector needs them.
            step = self.rejector.input_step
            outputs = replaced(self._outputs(model_input), input_step=step)
        decided = self.rejector.decide(outputs)
        labels = decided.labels
        columns = {
            "answer": [self.rejector.name_of(one) for one in labels.tolist()],
            "label": labels,
            "knownness": decided.known,
            "accepted": ~decided.is_rejected,
        }
        if decided.set_classes is not None:
            columns["set"] = [
                [self.rejector.name_of(one) for one in classes]
                for classes in decided.set_classes
            ]
        return pd.DataFrame(columns)

    def _outputs(self, given: Any) -> Outputs:
        is_table = isinstance(given, pd.DataFrame)
        if isinstance(given, Mapping) or (is_table and set(_INPUTS) & {*given.columns}):
            named = {name: given[name] for name in _INPUTS if name in given}
            # A column of a table has one list per sample.
            return Outputs(**{n: np.array(list(a)) for n, a in named.items()})
        needs = self.rejector.fitted.detector.score_needs
        if len(needs) != 1:
            rule = f"a mapping or a table with {' and '.join(needs)}"
            got = type(given).__name__
            _check.fail("Model.predict", "model_input", rule, got)
        if is_table and needs[0] == "logits":
            given = self._in_order(given)
        return Outputs(**{needs[0]: np.asarray(given)})

    def _in_order(self, table: "pd.DataFrame") -> "pd.DataFrame":
        """Return the columns in the order of the classes, if they have their names."""
        classes = self.rejector.classes
        names = [str(name) for name in table.columns]
        if sorted(names) != sorted(classes) or len(set(names)) < len(names):
            return table
        return table.iloc[:, [names.index(name) for name in classes]]


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
        "loader_module": _CALLER,
        "pip_requirements": [f"openset[mlflow]=={__version__}"],
        "metadata": facts,
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = rejector.save(Path(temporary) / "rejector")
        return action(data_path=str(folder), **settings | options)
