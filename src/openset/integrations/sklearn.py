"""Add rejection of unknown samples to any scikit-learn classifier."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from openset import _check, metrics, thresholds
from openset._types import UNKNOWN, CalibrationWarning
from openset.detectors import Detector
from openset.integrations.sklearn_outputs import (
    CALLER,
    checked_labels,
    find_unknown,
    joined,
    outputs_of,
    placed,
    rows_of,
    scored,
    splits,
)
from openset.metrics.counts import ranking_counts
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.rejector.calibrate import kept_of
from openset.scores import Scores
from openset.thresholds import Caution, Threshold

__all__ = ["OpenSetClassifier", "scorer"]

# Asks for training outputs, which `surrogate="classes"` takes the place of here.
_ABOUT_TRAIN = "CAL011"
_WARNED_OF: set[str] = set()  # in this process, for copies


def _delegate(name: str) -> Callable[["OpenSetClassifier"], Any]:
    """Offer a method iff the wrapped classifier has it."""
    return lambda self: getattr(getattr(self, "estimator_", self.estimator), name)


class OpenSetClassifier(
    ClassifierMixin,  # type: ignore[misc]  # scikit-learn is not typed
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A classifier that predicts `unknown_label` for samples of unknown classes.

    The classifier's scores are used as logits (decision values, else the logarithm of
    its probabilities), its inputs as features (in a pipeline: the inputs of the last
    step). A detector computes one knownness per sample from them, which is compared
    with a threshold. The threshold is chosen on samples the classifier was *not* fitted
    on, by cross-validation; then classifier and detector are fitted on all samples.

    Samples whose label in `fit` is `unknown_label` are examples of unknowns: they are
    used to choose the threshold, not to fit the classifier. Without such samples, and
    without `surrogate`, the threshold accepts the share `tpr` of held-out samples.

    It passes scikit-learn's ``check_estimator`` but for one check,
    ``check_classifiers_train``: that wants nearly every training sample to get its own
    class, and the answer "unknown" is none.

    Parameters
    ----------
    estimator
        A classifier with ``decision_function`` or ``predict_proba``, or a pipeline. An
        accepted sample gets the class with the largest value, as ``estimator.predict``
        does; of ``SVC`` with more than two classes, only if ``break_ties=True``.
    detector
        Name of a detector (see :func:`openset.detectors.names`), or a detector.
        ``"auto"``: with examples of unknowns, the mean rank by MSP, RMDS, ViM and OSNN
        (:func:`openset.selection.choose`), without those that the classifier has not
        the inputs for; without examples MSP.
    objective
        How the threshold is chosen if there are unknowns: a function of
        :mod:`openset.thresholds` by name, perhaps with options (``"at_fpr:fpr=0.05"``),
        or any function from scores to a threshold. ``"at_tpr"`` and ``"conformal"``,
        which need no unknowns, are also used without them.
    alpha
        Weight of the known samples, between 0 and 1, for the objectives that have one.
        None: 0.5, known and unknown samples count the same.
    tpr
        Used if there are no unknown samples but the objective needs them: the share of
        held-out samples to accept.
    unknown_label
        Label of unknown samples, in `fit` and `predict`; it must not be a class. None:
        -1 if classes are numbers, "unknown" if they are strings. If it is None and the
        labels are only -1 and one other number, they are taken as two classes, as is
        usual in scikit-learn; `predict` then raises where it rejects a sample, and asks
        for an `unknown_label`.
    surrogate
        ``"classes"``: if there are no unknowns in `fit`, use every class once as
        unknown, with a classifier fitted without it (needs at least three classes).
        None: no surrogates.
    cv
        Number of folds, or a splitter.

    Attributes
    ----------
    classes_
        The known classes.
    estimator_
        The classifier, fitted on all known samples.
    rejector_
        The :class:`openset.Rejector`: it can be saved, served and exported.
    threshold_
        Its :class:`openset.thresholds.Threshold`, with method and calibration counts.
    cautions_
        What to know about the threshold. They are also warned of: once in a process for
        all copies that cross-validations and searches make.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn.linear_model import LogisticRegression
    >>> centres = [[0, 0], [9, 0], [0, 9]]
    >>> X, y = make_blobs(60, centers=centres, random_state=0)
    >>> names = np.array(["ant", "bee", "cat"])[y]
    >>> model = OpenSetClassifier(
    ...     LogisticRegression(), detector="mahalanobis", tpr=1.0)
    >>> model.fit(X, names).predict([[0, 0], [9, 1], [40, 40]])
    array(['ant', 'bee', 'unknown'], dtype='<U7')
    """

    def __init__(
        self,
        estimator: Any,
        *,
        detector: str | Detector = "auto",
        objective: str | Callable[[Scores], Threshold] = "osa",
        alpha: float | None = None,
        tpr: float = 0.95,
        unknown_label: Any = None,
        surrogate: str | None = None,
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.detector = detector
        self.objective = objective
        self.alpha = alpha
        self.tpr = tpr
        self.unknown_label = unknown_label
        self.surrogate = surrogate
        self.cv = cv

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        # One detector may need features, which a sparse matrix is not.
        tags.input_tags.sparse &= self.detector == "auto"
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()
        copy._is_copy = True
        return copy

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on samples `X` with labels `y`, some of which may be `unknown_label`."""
        if self.surrogate is not None:
            _check.one_of(CALLER, "surrogate", self.surrogate, ["classes"])
        (X,) = indexable(X)
        labels = checked_labels(X, y)
        self._unknown, is_unknown = find_unknown(self.unknown_label, labels)
        leave_out = self.surrogate is not None and not is_unknown.any()
        folds = splits(self.cv, X, labels, is_unknown, leave_out=leave_out)
        has_unknowns = leave_out or bool(is_unknown.any())
        recipes, scores = scored(
            self.estimator, self.detector, X, labels, folds, has_unknowns=has_unknowns
        )
        known = np.flatnonzero(~is_unknown)
        X, labels = rows_of(X, known), labels[known]
        self.classes_ = np.unique(labels)
        self.estimator_ = clone(self.estimator).fit(X, labels)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        outputs = outputs_of(self.estimator_, X, labels=placed(labels, self.classes_))
        fitted, held_out = joined([one.fit(outputs) for one in recipes], scores)
        threshold = self._threshold(held_out)
        self.rejector_ = Rejector(
            fitted=fitted,
            threshold=threshold,
            report=thresholds.report(held_out, threshold),
            classes=tuple(map(str, self.classes_)),
            reference=kept_of(ranking_counts(held_out), outputs),
        )
        self.threshold_ = threshold
        self.cautions_: tuple[Caution, ...] = tuple(
            one for one in self.rejector_.cautions if one.code != _ABOUT_TRAIN
        )
        self._warn()
        return self

    def outputs(self, X: Any, y: Any = None) -> Outputs:
        """Return what the classifier computes: for its rejector, and to watch it.

        These are logits and features; with `y` also labels, -1 for those of no known
        class, and the labels as groups.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from openset import watch
        >>> X, y = load_iris(return_X_y=True)
        >>> model = OpenSetClassifier(LogisticRegression(max_iter=999)).fit(X, y)
        >>> new = model.outputs(X[:100])
        >>> bool((model.rejector_.predict(new) == model.predict(X[:100])).all())
        True
        >>> scores = model.rejector_.score(new)
        >>> watch.Watch.of(model.rejector_).check(scores).unknown_rate.is_alarm
        False
        """
        check_is_fitted(self)
        about: dict[str, Any] = {"classes": self.rejector_.classes}
        if y is not None:
            labels = checked_labels(X, y)
            about["labels"] = placed(labels, self.classes_)
            about["groups"] = labels.astype(np.str_)
        return outputs_of(self.estimator_, X, **about)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each sample, or `unknown_label`."""
        outputs = self.outputs(X)
        decided = self.rejector_.predict(outputs)
        is_rejected = decided == UNKNOWN
        found = self.classes_[np.where(is_rejected, 0, decided)]
        if self._unknown is None:
            if is_rejected.any():
                rule, got = "none of the classes", "-1, which is one"
                remedy = "Choose another one; or say that -1 marks unknown samples"
                _check.fail(f"{CALLER}.predict", "unknown_label", rule, got, remedy)
            return found
        # Wide enough for the label: a string must not be truncated.
        dtype = np.result_type(found.dtype, np.asarray(self._unknown).dtype)
        return np.where(is_rejected, np.asarray(self._unknown, dtype), found)

    def knownness(self, X: Any) -> NDArray[np.float64]:
        """Return the knownness of each sample; the threshold applies to it."""
        outputs = self.outputs(X)  # raises if it is not fitted
        return self.rejector_.known(outputs)

    def scores(self, X: Any, y: Any) -> Scores:
        """Return the scores of labelled samples, for metrics, tables and reports.

        Every label that is none of the known classes counts as unknown. The labels of
        unknown samples are their groups.
        """
        outputs = self.outputs(X, y)
        return self.rejector_.score(outputs)

    def evaluate(self, X: Any, y: Any, **options: Any) -> metrics.Evaluation:
        """Return :func:`openset.metrics.evaluate` of samples not used in `fit`."""
        return metrics.evaluate(self.scores(X, y), self.threshold_, **options)

    @available_if(_delegate("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the classifier's own decision values, for the known classes."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    @available_if(_delegate("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the classifier's own probabilities, *given* that a class is known."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def _threshold(self, scores: Scores) -> Threshold:
        """Choose the threshold on the scores of held-out samples."""
        objective, options = self.objective, {}
        if not scores.n_unknown and thresholds.needs_unknowns(objective):
            objective, options = "at_tpr", {"tpr": self.tpr}
        return thresholds.choose_by(
            objective, scores, caller=CALLER, alpha=self.alpha, options=options
        )

    def _warn(self) -> None:
        """Warn of cautions; copies warn of each kind once."""
        said = _WARNED_OF if hasattr(self, "_is_copy") else set()
        for one in self.cautions_:
            if one.code not in said:
                warnings.warn(str(one), CalibrationWarning, stacklevel=3)
        said.update(one.code for one in self.cautions_)


def scorer(metric: str) -> Callable[[Any, Any, Any], float]:
    """Return a metric as a scorer for scikit-learn: higher is better.

    For ``cross_val_score(scoring=...)`` and ``GridSearchCV(scoring=...)`` with an
    `OpenSetClassifier`, or with a pipeline that ends in one. Metrics for which lower is
    better have their sign changed. Test samples of no known class count as unknown.

    Parameters
    ----------
    metric
        Name of a metric: ``"openauc"``, ``"osa"``, ``"auroc"``, ...

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> y = np.where(y == 9, -1, y)
    >>> model = OpenSetClassifier(GaussianNB(), detector="mahalanobis", cv=2)
    >>> cross_val_score(model, X, y, cv=2, scoring=scorer("openauc")).round(1)
    array([0.6, 0.7])
    """
    row = metrics.get(metric)
    sign = -1.0 if row.better == "lower" else 1.0

    def score(estimator: Any, X: Any, y: Any) -> float:
        if isinstance(estimator, Pipeline):
            X, estimator = estimator[:-1].transform(X), estimator[-1]
        return sign * estimator.evaluate(X, y, metrics=[row.key])[row.key]

    return score
