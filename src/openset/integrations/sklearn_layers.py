"""A pipeline of scikit-learn as layers of torch, to be exported."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import preprocessing
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.utils.validation import check_is_fitted

from openset import _check
from openset._optional import needs
from openset.integrations.sklearn import OpenSetClassifier
from openset.integrations.sklearn_outputs import logits_of
from openset.rejector import Rejector

with needs("torch"):
    import torch
    from torch import Tensor, nn

_LINEAR = (
    *(preprocessing.StandardScaler, preprocessing.RobustScaler),
    *(preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler, PCA, TruncatedSVD),
)


def layers_of(caller: str, model: Any) -> tuple[Rejector, nn.Module, Tensor]:
    """Return the rejector of a classifier, and the classifier as layers of torch."""
    *steps, last = [one for _, one in getattr(model, "steps", [("", model)])]
    if not isinstance(last, OpenSetClassifier):
        rule = "a Rejector, an OpenSetClassifier or a pipeline that ends in one"
        got = type(last).__name__
        _check.fail(caller, "rejector", rule, got, error=TypeError)
    check_is_fitted(last)
    inner = last.estimator_
    *more, head = [one for _, one in getattr(inner, "steps", [("", inner)])]
    rows = np.random.default_rng(0).normal(size=(64, model.n_features_in_))
    rows *= np.logspace(-3, 7, 64)[:, None]  # some are clipped, if any are
    example = torch.from_numpy(rows)
    layers: list[nn.Module] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of columns
        for step in (*steps, *more):
            if step in (None, "passthrough"):
                continue
            if isinstance(step, preprocessing.Normalizer) and step.norm == "l2":
                layers.append(_Normalized())
            else:
                _need_linear(caller, step, isinstance(step, _LINEAR))
                layers.append(_linear(caller, step, step.transform, rows))
            rows = step.transform(rows)
        layers.append(_linear(caller, head, partial(logits_of, head), rows))
    return last.rejector_, nn.Sequential(*layers), example


def _linear(caller: str, step: Any, function: Any, rows: NDArray[Any]) -> nn.Module:
    """Return a function as a linear layer: what it makes of zeros and ones."""
    bias, wanted = function(np.zeros_like(rows[:1])), function(rows)
    weight = function(np.eye(rows.shape[1])) - bias
    most = np.abs(wanted).max(axis=1) + np.abs(bias).max()
    errors = np.abs(rows @ weight + bias - wanted).max(axis=1)
    _need_linear(caller, step, (errors <= 1e-6 * most).all())
    layer = nn.Linear(*weight.shape).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight.T))
        layer.bias.copy_(torch.tensor(bias[0]))
    return layer


def _need_linear(caller: str, step: Any, is_linear: object) -> None:
    if not is_linear:
        rule, got = "a chain of linear steps", repr(step)
        remedy = "Export the rejector_ with an ONNX file of the estimator_ as model"
        _check.fail(caller, "the classifier", rule, got, remedy)


class _Normalized(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, 1)
