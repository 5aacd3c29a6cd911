"""Outputs of scikit-learn classifiers, and scores of samples held out of the fit."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from openset import _check, _class_names
from openset._types import UNKNOWN
from openset.detectors import Detector, Fitted, combine, make
from openset.detectors.combined import rank
from openset.metrics import auroc
from openset.outputs import Outputs
from openset.scores import Scores
from openset.selection.choose import MEMBERS, suitable

CALLER = "OpenSetClassifier"


def outputs_of(model: Any, X: Any, **about: Any) -> Outputs:
    """Return logits; features if there are some; the head of a linear classifier."""
    logits, features = logits_of(model, X), features_of(model, X)
    head = {} if features is None else linear_head(model, logits, features)
    return Outputs(logits=logits, features=features, **head, **about)


def logits_of(model: Any, X: Any) -> NDArray[np.float64]:
    """Return one score per class: decision values, else log-probabilities."""
    is_of_pairs = any(
        name.endswith("decision_function_shape") and value == "ovo"
        for name, value in model.get_params().items()
    )
    if hasattr(model, "decision_function") and not is_of_pairs:
        values = np.asarray(model.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            # Half the decision value for each class: their difference is the decision
            # value, and the largest logit does not depend on the order of the classes.
            return np.stack([-values / 2, values / 2], axis=1)
        if values.shape[1] == len(model.classes_):
            return values
    if hasattr(model, "predict_proba"):
        values = np.asarray(model.predict_proba(X), dtype=np.float64)
        # A probability of 0 from a forest means "no tree", not "impossible": keep
        # logits finite.
        return np.log(np.maximum(values, np.finfo(np.float64).tiny))
    rule = "a classifier with predict_proba, or decision values of one column per class"
    remedy = "SVC: decision_function_shape='ovr'; VotingClassifier: voting='soft'"
    got = type(model).__name__
    return _check.fail(CALLER, "estimator", rule, got, remedy, TypeError)


def features_of(model: Any, X: Any) -> Any:
    """Return the inputs of the classifier; in a pipeline, those of its last step.

    None if they are no dense table of numbers.
    """
    if isinstance(model, Pipeline) and len(model) > 1:
        X = model[:-1].transform(X)
    try:
        found = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None  # a sparse matrix, or text
    return found if found.ndim == 2 and np.isfinite(found).all() else None


def linear_head(
    model: Any, logits: NDArray[Any], features: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return weight and bias of a linear classifier; nothing for others."""
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


def placed(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of labels among sorted classes; -1 for those of none."""
    is_known = np.isin(labels, classes)
    return np.where(is_known, np.searchsorted(classes, labels), UNKNOWN)


def recipes_of(detector: Any, train: Outputs | None = None) -> list[Detector]:
    """Return the detector, or those of which the mean rank is taken.

    With training outputs ``"auto"`` is the consensus of `selection.choose`.
    """
    if isinstance(detector, Detector):
        return [detector]
    if detector != "auto":
        return [make(detector)]
    able = () if train is None else suitable(train).names
    members = [name for name in MEMBERS if name in able] or MEMBERS[:1]
    return [make(name) for name in members]


def scored(
    estimator: Any,
    detector: Any,
    X: Any,
    labels: NDArray[Any],
    folds: Iterable[tuple[NDArray[np.intp], NDArray[np.intp]]],
    *,
    has_unknowns: bool,
) -> tuple[list[Detector], list[Scores]]:
    """Fit on the first rows of each fold, score the others.

    Returned are the detectors, and the scores by each.
    """
    recipes: list[Detector] = []
    parts: dict[int, list[Scores]] = {}
    for rows, others in folds:
        model = clone(estimator).fit(rows_of(X, rows), labels[rows])
        classes = np.unique(labels[rows])
        train, held_out = (
            outputs_of(model, rows_of(X, some), labels=placed(labels[some], classes))
            for some in (rows, others)
        )
        if not parts:
            recipes = recipes_of(detector, train if has_unknowns else None)
            parts = {i: [] for i in range(len(recipes))}
        for i in list(parts):
            try:
                parts[i].append(recipes[i].fit(train).score(held_out))
            except ValueError:
                if i == 0:
                    raise
                del parts[i]  # of several: it cannot be fitted on these samples
    pooled = {i: Scores.concat(each) for i, each in parts.items()}
    # Of several, those that rank unknowns above known samples are left out.
    upright = [i for i in pooled if len(pooled) > 1 and auroc(pooled[i]) >= 0.5]
    used = upright or list(pooled)
    return [recipes[i] for i in used], [pooled[i] for i in used]


def joined(fitted: list[Fitted], held_out: list[Scores]) -> tuple[Fitted, Scores]:
    """Combine detectors, and the scores of held-out samples by each."""
    if len(fitted) == 1:
        return fitted[0], held_out[0]
    reference = [one.known[one.labels != UNKNOWN] for one in held_out]
    both = combine(fitted, reference=reference)
    tables = zip(held_out, both.state["knots"], strict=True)
    ranks = [rank(one.known, knots) for one, knots in tables]
    return both, held_out[0].with_known(np.mean(ranks, axis=0))


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return samples of what :func:`sklearn.utils.indexable` returned."""
    if hasattr(X, "iloc"):  # pandas, where brackets select columns
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def splits(
    cv: Any, X: Any, labels: NDArray[Any], is_unknown: NDArray[Any], *, leave_out: bool
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split the samples into folds: rows to fit on, rows to score.

    Unknown samples are divided among the folds. With `leave_out`, each class is scored
    once more by a classifier that does not know it.
    """
    known, unknown = np.flatnonzero(~is_unknown), np.flatnonzero(is_unknown)
    splitter = check_cv(cv, labels[known], classifier=True)
    folds = [*splitter.split(rows_of(X, known), labels[known])]
    for i, (train, test) in enumerate(folds):
        rows, others = known[train], known[test]
        # The only sample of a class is in the others: it would be held out as unknown.
        others = others[np.isin(labels[others], labels[rows])]
        yield rows, np.append(others, unknown[i :: len(folds)])
    classes = np.unique(labels) if leave_out else ()
    if leave_out and len(classes) < 3:
        rule, got = "None for fewer than three classes", "'classes'"
        remedy = "With one of two left out, only one class is left to classify"
        _check.fail(CALLER, "surrogate", rule, got, remedy)
    for one in classes:
        yield np.flatnonzero(labels != one), np.flatnonzero(labels == one)


def checked_labels(X: Any, y: Any) -> NDArray[Any]:
    """Return labels as an array of numbers or strings, one per sample."""
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def find_unknown(label: Any, labels: NDArray[Any]) -> tuple[Any, NDArray[np.bool_]]:
    """Return the unknown label in the type of the classes, and its samples.

    If the labels are only -1 and one other, and no unknown label was named, both are
    classes: then there is none.
    """
    is_text = _class_names.is_text(labels)
    default: Any = _class_names.UNKNOWN_NAME if is_text else UNKNOWN
    unknown = default if label is None else label
    if np.ndim(unknown) or isinstance(unknown, str) != is_text:
        rule = f"a {'string' if is_text else 'number'} where classes are {labels.dtype}"
        remedy = f"Leave it out for {default!r}"
        _check.fail(CALLER, "unknown_label", rule, repr(label), remedy)
    is_unknown = labels == unknown
    is_default = label is None and not is_text
    if is_default and is_unknown.any() and np.unique(labels).size == 2:
        return None, np.zeros(labels.size, dtype=bool)
    return unknown, is_unknown
