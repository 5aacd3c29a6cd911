"""Add rejection of unknown samples to any scikit-learn classifier."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from openset import _check, detectors, metrics, thresholds
from openset._types import UNKNOWN, CalibrationWarning
from openset.detectors import Detector, Fitted
from openset.integrations._sklearn_folds import (
    PrecomputedScores,
    n_samples,
    rows_of,
    splits,
)
from openset.integrations._sklearn_labels import checked_labels, find_unknown
from openset.integrations.sklearn_outputs import (
    CALLER,
    classes_of,
    looks_at_features,
    outputs_of,
    outputs_to_fit,
)
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.scores import Scores
from openset.thresholds import Threshold

__all__ = ["OpenSetClassifier", "scorer"]

# Asks for training outputs, which `surrogate="classes"` takes the place of here.
_ABOUT_TRAIN = "CAL011"


def _delegate(name: str) -> Callable[["OpenSetClassifier"], bool]:
    """Offer a method iff the wrapped classifier has it."""

    def has(self: "OpenSetClassifier") -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return has


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
    without `surrogate`, the threshold accepts the share `tpr` of held-out samples. A
    warning is given if the threshold rejects none of the unknown samples it was chosen
    on.

    Parameters
    ----------
    estimator
        A classifier with ``decision_function`` or ``predict_proba``, or a pipeline. An
        accepted sample gets the class with the largest value, as ``estimator.predict``
        does; of ``SVC`` with more than two classes, only if ``break_ties=True``.
    detector
        Name of a detector (see :func:`openset.detectors.names`), or a detector.
    objective
        How the threshold is chosen if there are unknowns: a function of
        :mod:`openset.thresholds` by name, or any function from scores to a threshold.
        ``"at_tpr"`` and ``"conformal"``, which need no unknowns, are also used without
        them.
    objective_params
        Options of the objective, e.g. ``{"fpr": 0.05}``.
    alpha
        Weight of the known samples in the objective ``"osa"``, between 0 and 1. None:
        0.5, known and unknown samples count the same.
    tpr
        Used if there are no unknown samples but the objective needs them: the share of
        held-out samples to accept. With 1, only samples that score lower than every
        training sample are rejected, which may be very few.
    unknown_label
        Label of unknown samples, in `fit` and `predict`; it must not be a class. None:
        -1 if classes are numbers, "unknown" if they are strings; a class that may mean
        the same ("oos", "other") then raises an error that asks for this argument. If
        it is None and the labels are only -1 and one other number, they are taken as
        two classes, as is usual in scikit-learn; `predict` then raises where it rejects
        a sample, and asks for an `unknown_label`.
    surrogate
        ``"classes"``: if there are no unknowns in `fit`, use every class once as
        unknown, with a classifier fitted without it (needs at least three classes).
        None: no surrogates.
    cv
        Number of folds, or a splitter with ``split(X, y)``.

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
        detector: str | Detector = "msp",
        objective: str | Callable[[Scores], Threshold] = "osa",
        objective_params: Mapping[str, Any] | None = None,
        alpha: float | None = None,
        tpr: float = 0.95,
        unknown_label: Any = None,
        surrogate: str | None = None,
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.detector = detector
        self.objective = objective
        self.objective_params = objective_params
        self.alpha = alpha
        self.tpr = tpr
        self.unknown_label = unknown_label
        self.surrogate = surrogate
        self.cv = cv

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if looks_at_features(self._recipe()):
            tags.input_tags.sparse = False
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on samples `X` with labels `y`, some of which may be `unknown_label`."""
        recipe = self._recipe()
        self._check_options()
        (X,) = indexable(X)
        labels = checked_labels(X, y)
        self._unknown, is_unknown = find_unknown(self.unknown_label, labels)
        knowns = rows_of(X, np.flatnonzero(~is_unknown))
        known_labels = labels[~is_unknown]
        self.classes_, owner = np.unique(known_labels, return_inverse=True)
        unknowns = rows_of(X, np.flatnonzero(is_unknown))
        pooled = self._scored(recipe, knowns, known_labels, owner, unknowns)
        self.estimator_ = clone(self.estimator).fit(knowns, known_labels)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        outputs = outputs_to_fit(recipe, self.estimator_, knowns, owner)
        fitted = recipe.fit(outputs)
        chosen = self._calibrated(pooled, fitted.score(outputs))
        self.threshold_ = chosen.threshold
        self.rejector_ = replace(chosen, fitted=fitted, reference_features=None)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each sample, or `unknown_label`."""
        outputs = self._outputs_of(X)
        decided = self.rejector_.predict(outputs)
        is_rejected = decided == UNKNOWN
        found = self.classes_[np.where(is_rejected, 0, decided)]
        if self._unknown is None:
            if is_rejected.any():
                msg = _check.must(
                    "none of the classes",
                    caller=f"{CALLER}.predict",
                    name="unknown_label",
                    got="-1, which is one",
                    remedy="Choose another label for rejected samples. If -1 marks "
                    "unknown samples, say so: unknown_label=-1",
                )
                raise ValueError(msg)
            return found
        # Wide enough for the label: a string must not be truncated.
        dtype = np.result_type(found.dtype, np.asarray(self._unknown).dtype)
        return np.where(is_rejected, np.asarray(self._unknown, dtype), found)

    def knownness(self, X: Any) -> NDArray[np.float64]:
        """Return the knownness of each sample; the threshold applies to it."""
        outputs = self._outputs_of(X)
        return self.rejector_.known(outputs)

    def scores(self, X: Any, y: Any) -> Scores:
        """Return the scores of labelled samples, for metrics, tables and reports.

        Every label that is none of the known classes counts as unknown. The labels of
        unknown samples are their groups.
        """
        outputs = self._outputs_of(X)
        labels = checked_labels(X, y)
        place = np.minimum(
            np.searchsorted(self.classes_, labels), len(self.classes_) - 1
        )
        is_known = self.classes_[place] == labels
        found = self.rejector_.score(outputs)
        return Scores(
            labels=np.where(is_known, place, UNKNOWN),
            predicted=found.predicted,
            known=found.known,
            groups=labels.astype(np.str_),
            n_classes=len(self.classes_),
        )

    def evaluate(self, X: Any, y: Any, **options: Any) -> metrics.Evaluation:
        """Return every metric on labelled samples that were not used in `fit`.

        `options` are those of :func:`openset.metrics.evaluate`. Every label that is
        none of the known classes counts as unknown.
        """
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

    def _recipe(self) -> Detector:
        if isinstance(self.detector, Detector):
            return self.detector
        return detectors.make(self.detector)

    def _check_options(self) -> None:
        """Check options that these data do not use."""
        _check.rate(CALLER, "tpr", self.tpr, open_low=True)
        if self.surrogate is not None:
            _check.one_of(CALLER, "surrogate", self.surrogate, ["classes"])
        if not callable(self.objective):
            thresholds.check_options(CALLER, self.objective, self._objective_options())

    def _objective_options(self) -> dict[str, Any]:
        alpha = {} if self.alpha is None else {"alpha": self.alpha}
        return {**(self.objective_params or {}), **alpha}

    def _scored(
        self,
        recipe: Detector,
        knowns: Any,
        labels: NDArray[Any],
        owner: NDArray[np.intp],
        unknowns: Any,
    ) -> Scores:
        """Score every sample once, by a classifier that was not fitted on it."""
        parts = list(self._held_out(recipe, knowns, labels, owner))
        scores = [one for _, one in parts]
        n_unknown = n_samples(unknowns)
        if n_unknown:
            for place, (scorer, _) in enumerate(parts):
                mine = np.arange(place, n_unknown, len(parts))
                if mine.size:
                    scores.append(scorer(rows_of(unknowns, mine), None))
        elif self.surrogate is not None:
            scores.extend(self._left_out(recipe, knowns, labels))
        return Scores.concat(scores)

    def _held_out(
        self,
        recipe: Detector,
        X: Any,
        labels: NDArray[Any],
        owner: NDArray[np.intp],
    ) -> Iterator[tuple[Callable[[Any, Any], Scores], Scores]]:
        """Fit without each fold; yield the scoring function and the scores."""
        for train, test in splits(self.cv, X, labels, owner):
            model = clone(self.estimator).fit(rows_of(X, train), labels[train])
            if len(classes_of(model)) != self.classes_.size:
                msg = _check.must(
                    "one that leaves samples of every class to fit on",
                    caller=CALLER,
                    name="cv",
                    got=f"a split with {len(model.classes_)} of {self.classes_.size}",
                )
                raise ValueError(msg)
            seen = rows_of(X, train)
            outputs = outputs_to_fit(recipe, model, seen, owner[train])
            scorer = self._scorer(recipe, model, recipe.fit(outputs))
            yield scorer, scorer(rows_of(X, test), owner[test])

    def _left_out(
        self,
        recipe: Detector,
        X: Any,
        labels: NDArray[Any],
    ) -> Iterator[Scores]:
        """Scores of each class, from a classifier fitted without it."""
        if self.classes_.size < 3:
            msg = _check.must(
                "None for fewer than three classes",
                caller=CALLER,
                name="surrogate",
                got="'classes'",
                remedy="With one of two classes left out, only one class is left to "
                "classify",
            )
            raise ValueError(msg)
        for name in self.classes_:
            rest, mine = np.flatnonzero(labels != name), np.flatnonzero(labels == name)
            model = clone(self.estimator).fit(rows_of(X, rest), labels[rest])
            owner = np.unique(labels[rest], return_inverse=True)[1]
            outputs = outputs_to_fit(recipe, model, rows_of(X, rest), owner)
            scorer = self._scorer(recipe, model, recipe.fit(outputs))
            yield scorer(rows_of(X, mine), None)

    def _scorer(
        self, recipe: Detector, model: Any, fitted: Fitted
    ) -> Callable[[Any, Any], Scores]:
        def score(X: Any, owner: Any) -> Scores:
            unknown = np.full(n_samples(X), UNKNOWN)
            labels = unknown if owner is None else owner
            found = fitted.score(outputs_of(recipe, model, X, labels=labels))
            # Classifiers fitted without a class have one class less: omit the count.
            return Scores(
                labels=found.labels, predicted=found.predicted, known=found.known
            )

        return score

    def _calibrated(self, scores: Scores, own: Scores) -> Rejector:
        """Calibrate on held-out `scores`; `own` are those of the classifier fitted."""
        options = self._objective_options()
        objective: Any = self.objective
        if (
            scores.n_unknown == 0
            and isinstance(objective, str)
            and thresholds.needs_unknowns(objective)
        ):
            options = {}

            def objective(found: Scores) -> Threshold:
                return self._accepting(found, own)

        columns = np.stack([scores.known, scores.predicted], axis=1)
        held_out = Outputs(
            features=columns,
            labels=scores.labels,
            classes=[str(name) for name in self.classes_],
        )
        fitted = Fitted(detector=PrecomputedScores(), state={})
        # A threshold that rejects nothing is warned of, not refused: a search over
        # parameters must be able to go on.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            rejector = Rejector.calibrate(
                fitted, known=held_out, objective=objective, accept_risk=True, **options
            )
        for caution in rejector.cautions:
            if caution.code != _ABOUT_TRAIN:
                warnings.warn(str(caution), CalibrationWarning, stacklevel=3)
        return rejector

    def _accepting(self, scores: Scores, own: Scores) -> Threshold:
        """Choose the threshold that accepts the share `tpr` of the known samples."""
        threshold = thresholds.at_tpr(scores, self.tpr)
        if self.tpr < 1:
            return threshold
        # tpr = 1 must hold for all samples: the final classifier may give a sample a
        # lower knownness than the one fitted without it.
        least = min(threshold.value, float(own.known.min()))
        interval = threshold.interval._replace(low=-np.inf, high=least)
        return replace(threshold, value=least, interval=interval)

    def _outputs_of(self, X: Any) -> Outputs:
        check_is_fitted(self)
        # The fitted one: the parameter may have changed since.
        return outputs_of(self.rejector_.fitted.detector, self.estimator_, X)


def scorer(metric: str) -> Callable[[Any, Any, Any], float]:
    """Return a metric as a scorer for scikit-learn: higher is better.

    For ``cross_val_score(scoring=...)`` and ``GridSearchCV(scoring=...)`` with an
    `OpenSetClassifier`, or with a pipeline that ends in one. Metrics for which lower is
    better have their sign changed. Test samples of no known class count as unknown.

    Parameters
    ----------
    metric
        Key of the table of metrics: ``"openauc"``, ``"osa"``, ``"auroc"``, ...

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
        _check.instance(
            f"scorer({metric!r})",
            "estimator",
            estimator,
            OpenSetClassifier,
            rule="an OpenSetClassifier, or a pipeline that ends in one",
            remedy="Wrap your classifier: OpenSetClassifier(classifier)",
        )
        return sign * estimator.evaluate(X, y, metrics=[row.key])[row.key]

    return score
