"""Outputs of a scikit-learn classifier, as those of a network."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from openset import _check
from openset.detectors import Detector
from openset.outputs import Outputs, replaced

CALLER = "OpenSetClassifier"


def outputs_of(
    recipe: Detector,
    model: Any,
    X: Any,
    *,
    labels: NDArray[np.intp] | None = None,
) -> Outputs:
    """Return logits and, if the detector needs them, features."""
    logits = logits_of(model, X)
    features = features_of(model, X) if looks_at_features(recipe) else None
    return Outputs(logits=logits, features=features, labels=labels)


def outputs_to_fit(
    recipe: Detector, model: Any, X: Any, labels: NDArray[np.intp]
) -> Outputs:
    """Return the same, with the head if the detector needs it to be fitted."""
    outputs = outputs_of(recipe, model, X, labels=labels)
    if "head" not in recipe.fit_needs:
        return outputs
    head = linear_head(model, np.asarray(outputs.logits), np.asarray(outputs.features))
    if not head:
        last = model[-1] if isinstance(model, Pipeline) else model
        msg = _check.must(
            f"linear, one weight vector per class, for detector {recipe.name!r}",
            caller=CALLER,
            name="estimator",
            got=type(last).__name__,
            remedy="Use such a classifier, or a detector that needs no head",
        )
        raise TypeError(msg)
    return replaced(outputs, **head)


def looks_at_features(recipe: Detector) -> bool:
    """Whether a detector needs more than logits."""
    return bool({*recipe.fit_needs, *recipe.score_needs} & {"features", "head"})


def classes_of(model: Any) -> Any:
    """Return the classes a classifier has learnt."""
    if not hasattr(model, "classes_"):
        msg = _check.must(
            "a classifier", caller=CALLER, name="estimator", got=type(model).__name__
        )
        raise TypeError(msg)
    return model.classes_


def logits_of(model: Any, X: Any) -> NDArray[np.float64]:
    """Return one score per class: decision values, else log-probabilities."""
    n_classes = len(classes_of(model))
    params = model.get_params(deep=True) if hasattr(model, "get_params") else {}
    one_to_one = [k for k in params if k.endswith("decision_function_shape")]
    if hasattr(model, "decision_function") and not any(
        params[k] == "ovo" for k in one_to_one
    ):
        values = np.asarray(model.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            # Half the decision value for each class: their difference is the decision
            # value, and the largest logit does not depend on the order of the classes.
            return np.stack([-values / 2, values / 2], axis=1)
        if values.shape[1] == n_classes:
            return values
    if hasattr(model, "predict_proba"):
        values = np.asarray(model.predict_proba(X), dtype=np.float64)
        # A probability of 0 from a forest means "no tree", not "impossible": keep
        # logits finite.
        return np.log(np.maximum(values, np.finfo(np.float64).tiny))
    msg = _check.must(
        "a classifier with predict_proba, or a decision_function of one column per "
        "class",
        caller=CALLER,
        name="estimator",
        got=type(model).__name__,
        remedy="SVC: decision_function_shape='ovr'; VotingClassifier: voting='soft'",
    )
    raise TypeError(msg)


def features_of(model: Any, X: Any) -> NDArray[Any]:
    """Return the inputs of the classifier; in a pipeline, those of its last step."""
    if isinstance(model, Pipeline) and len(model) > 1:
        X = model[:-1].transform(X)
    if hasattr(X, "toarray"):
        msg = _check.must(
            "dense for a detector that needs features",
            caller=CALLER,
            name="X",
            got="a sparse matrix",
            remedy="Use a detector that needs only logits (msp, energy, ...), or "
            "reduce the dimension first",
        )
        raise TypeError(msg)
    return np.asarray(X, dtype=np.float64)


def linear_head(
    model: Any, logits: NDArray[Any], features: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return weight and bias of a linear classifier; None for others."""
    last = model[-1] if isinstance(model, Pipeline) else model
    weight = np.atleast_2d(np.asarray(getattr(last, "coef_", np.nan), np.float64))
    bias = np.atleast_1d(np.asarray(getattr(last, "intercept_", 0.0), np.float64))
    if weight.shape[0] == 1 and logits.shape[1] == 2:
        weight = np.concatenate([-weight / 2, weight / 2])
        bias = np.concatenate([-bias / 2, bias / 2])
    if weight.shape != (logits.shape[1], features.shape[1]):
        return {}
    bias = np.broadcast_to(bias, logits.shape[1:])
    # A support vector machine has a row for each *pair* of classes; with three classes
    # there are three rows, but they do not give the decision values.
    close = 1e-3 * np.abs(logits).max() + 1e-12
    if not np.allclose(features @ weight.T + bias, logits, rtol=0, atol=close):
        return {}
    return {"weight": weight, "bias": bias}
