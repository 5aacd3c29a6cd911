"""`Rejector`: decides for each sample whether it is of a known class or unknown."""

from collections.abc import Callable, Sequence
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import UNKNOWN
from openset.detectors import Fitted
from openset.outputs import Outputs, need_outputs, need_same_classes
from openset.rejector._calibration import calibrated
from openset.rejector._decisions import Decisions, Explanation
from openset.rejector._input_steps import check_step
from openset.rejector._invalid import Invalid, decide_on_valid, marked
from openset.rejector._sets import Method, logits_of
from openset.rejector._stored import Stored
from openset.scores import Scores
from openset.selection import Choice
from openset.thresholds import Caution, Operation, Threshold, operate
from openset.thresholds.alpha import Alpha


class Rejector(Stored):
    """A fitted detector and the threshold on its scores.

    Made by :meth:`calibrate` or :meth:`load`; never changed afterwards. If the inputs
    of the calibration were perturbed along a gradient (ODIN), `input_step` says how,
    and outputs of other inputs are refused.

    Examples
    --------
    >>> from openset import detectors
    >>> train = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
    >>> fitted = detectors.MSP().fit(train)
    >>> known = Outputs(logits=[[3.0, 0.0], [0.0, 2.0]], labels=[0, 1])
    >>> surrogate = Outputs(logits=[[1.0, 0.5], [0.1, 0.2]], labels=[-1, -1])
    >>> rejector = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
    >>> rejector.threshold.value
    2.0
    >>> rejector.predict(Outputs(logits=[[0.0, 5.0], [1.0, 1.0]]))
    array([ 1, -1])
    """

    @classmethod
    def calibrate(
        cls,
        fitted: Fitted | Choice,
        *,
        known: Outputs,
        surrogate: Outputs | str | Sequence[Outputs | str] | None = None,
        objective: str | Callable[..., Threshold] | None = None,
        alpha: Alpha = None,
        train: Outputs | None = None,
        accept_risk: bool = False,
        sets: Method | None = None,
        coverage: float = 0.9,
        by_class: bool = False,
        sets_known: Outputs | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> Self:
        """Choose the threshold on known validation samples and surrogate unknowns.

        Parameters
        ----------
        fitted
            A fitted detector, or the result of :func:`openset.selection.choose`.
        known
            Labelled outputs the detector was not fitted on. Samples labelled -1 among
            them are used like `surrogate`.
        surrogate
            Outputs of unknown samples (labels -1, or none), one set or several.
            ``"mixup"`` or ``"left-out"`` makes synthetic ones from `known`
            (:func:`openset.selection.synthetic`), and the report says so. Not needed
            for ``"at_tpr"`` and ``"conformal"``.
        objective
            Name of a function of :mod:`openset.thresholds` (``"osa"``,
            ``"worst_group"``, ``"per_class"``, ``"by_cost"``, ``"at_fpr"``,
            ``"at_tpr"``, ``"conformal"``), or any function from scores to a threshold.
            By default the objective of the choice, else ``"osa"``.
        alpha
            Weight of the known samples, for the objectives that have one. By default
            that of the choice, else 0.5; ``"counts"`` takes the share of known samples
            in the calibration data.
        train
            The outputs the detector was fitted on. With them, known classes are left
            out in turn and stand in for unknowns that resemble the known classes
            (:func:`openset.selection.leave_classes_out`), to check whether the
            threshold suits such unknowns.
        accept_risk
            Return a rejector even if its threshold rejects or accepts nearly
            everything, instead of raising an error.
        sets
            ``"lac"`` or ``"raps"``: also give each accepted sample a set of classes
            (:class:`SetRule`), so that the answer is "one of these" or "unknown".
        coverage
            For `sets`: share of the accepted known samples whose set must contain their
            class.
        by_class
            For `sets`: reach the coverage for each class, not only over all classes.
            Needs about ``1 / (1 - coverage)`` accepted samples of every class.
        sets_known
            Labelled outputs for the sets, other than `known`. With them the coverage is
            guaranteed; by default the accepted samples of `known` are used, on which
            the threshold was chosen, and the coverage is approximate.
        batch_size
            Samples scored at a time.
        **options
            Passed to the objective, e.g. ``fpr=0.01``.

        Raises
        ------
        CalibrationError
            If the threshold would reject or accept nearly everything (codes CAL001 and
            CAL002) and the risk is not accepted.

        Warns
        -----
        CalibrationWarning
            For every other sign that the threshold may not work on new data;
            `report.cautions` lists them all.
        """
        parts = calibrated(
            fitted,
            known=known,
            surrogate=surrogate,
            objective=objective,
            alpha=alpha,
            train=train,
            accept_risk=accept_risk,
            sets=sets,
            coverage=coverage,
            by_class=by_class,
            sets_known=sets_known,
            batch_size=batch_size,
            options=options,
        )
        return cls(**vars(parts))

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Signs in the calibration data that the threshold may not work on new data."""
        return self.report.cautions

    def score(self, outputs: Outputs, *, batch_size: int | None = None) -> Scores:
        """Return the detector's scores. Unlabelled samples get the label -1 in them."""
        return self._score(outputs, batch_size, None)

    def _score(
        self,
        outputs: Outputs,
        batch_size: int | None,
        rows: NDArray[np.int64] | None,
    ) -> Scores:
        self._check(outputs)
        if outputs.labels is None:
            # Labels are not used in scoring, only copied to the result.
            outputs = outputs.as_unknown()
        return self.fitted.score(outputs, batch_size=batch_size, rows=rows)

    def decide(
        self,
        outputs: Outputs,
        *,
        threshold: float | None = None,
        batch_size: int | None = None,
        invalid: Invalid = "error",
    ) -> Decisions:
        """Return the decisions with the scores they are based on, in one pass.

        Parameters
        ----------
        outputs
            Labelled or not.
        threshold
            Used instead of the calibrated one. The coverage of prediction sets is only
            calibrated for the latter.
        batch_size
            Samples scored at a time.
        invalid
            What to do with samples that have no answer: with NaN, of a class that is
            not determined, or whose score is NaN. ``"error"`` raises
            `InvalidSamplesError`. ``"reject"`` answers -1 for them and marks them in
            `Decisions.is_invalid`; all others are decided as if these were not there.
            Give ``Outputs(..., invalid="keep")``.

        Examples
        --------
        >>> from openset import detectors
        >>> known = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
        >>> rejector = Rejector.calibrate(
        ...     detectors.MSP().fit(known), known=known, objective="at_tpr"
        ... )
        >>> new = Outputs(logits=[[0.0, 5.0], [np.nan, 1.0]], invalid="keep")
        >>> decided = rejector.decide(new, invalid="reject")
        >>> decided.labels, decided.is_invalid
        (array([ 1, -1]), array([False,  True]))
        """
        _check.one_of("Rejector.decide", "invalid", invalid, get_args(Invalid))

        def decide(rows: NDArray[np.int64] | None) -> Decisions:
            return self._decide(outputs, threshold, batch_size, rows)

        if invalid == "error":
            return decide(None)
        n_classes = None if self.sets is None else outputs.n_classes
        outputs, is_invalid = marked("Rejector.decide", outputs)
        self._check(outputs)  # before, as all samples may be invalid
        self.fitted.check_outputs(outputs)
        return decide_on_valid(decide, is_invalid, n_classes)

    def _decide(
        self,
        outputs: Outputs,
        threshold: float | None,
        batch_size: int | None,
        rows: NDArray[np.int64] | None,
    ) -> Decisions:
        scores = self._score(outputs, batch_size, rows)
        labels = (
            self.threshold.decide(scores)
            if threshold is None
            else scores.decided(threshold)
        )
        sets = None
        if self.sets is not None:
            logits = logits_of("Rejector.decide", outputs)
            sets = self.sets.contains(logits if rows is None else logits[rows])
            sets[labels == UNKNOWN] = False
        return Decisions(labels, scores, sets)

    def predict(
        self,
        outputs: Outputs,
        *,
        batch_size: int | None = None,
        invalid: Invalid = "error",
    ) -> NDArray[np.int64]:
        """Return the class of each sample, or -1 for unknown.

        With ``invalid="reject"`` it is -1 for invalid samples too: see :meth:`decide`.
        """
        return self.decide(outputs, batch_size=batch_size, invalid=invalid).labels

    def predict_sets(
        self,
        outputs: Outputs,
        *,
        batch_size: int | None = None,
        invalid: Invalid = "error",
    ) -> list[list[int]]:
        """Return the classes each sample may belong to; none if it is rejected.

        `invalid` is as in :meth:`decide`.

        Examples
        --------
        >>> from openset import detectors
        >>> known = Outputs(logits=[[2.0, 1.0, 0.0]] * 9, labels=[0] * 6 + [1] * 3)
        >>> rejector = Rejector.calibrate(
        ...     detectors.MaxLogit().fit(known),
        ...     known=known,
        ...     objective="at_tpr",
        ...     accept_risk=True,
        ...     sets="lac",
        ...     coverage=0.8,
        ... )
        >>> rejector.predict_sets(Outputs(logits=[[3.0, 2.9, 0], [9, 0, 0], [0, 1, 1]]))
        [[0, 1], [0], []]
        """
        if self.sets is None:
            msg = _check.must(
                "calibrated with sets",
                caller="Rejector.predict_sets",
                name="rejector",
                got="one without",
                remedy="Calibrate again with sets='lac' or sets='raps'",
            )
            raise ValueError(msg)
        decided = self.decide(outputs, batch_size=batch_size, invalid=invalid)
        return decided.set_classes

    def known(
        self, outputs: Outputs, *, batch_size: int | None = None
    ) -> NDArray[np.float64]:
        """Return the knownness of each sample, larger = more known."""
        self._check(outputs, "Rejector.known")
        return self.fitted.known(outputs, batch_size=batch_size)

    def typical(
        self, outputs: Outputs, *, batch_size: int | None = None
    ) -> NDArray[np.float64]:
        """Return the knownness on a scale from 0 to 1 that detectors share.

        It is the share of known calibration samples whose knownness is not above the
        sample's: uniformly distributed for new known samples, near 0 for unknowns.
        """
        return self._share_below(self.known(outputs, batch_size=batch_size))

    def operate(
        self,
        outputs: Outputs,
        *,
        alpha: Alpha = None,
        batch_size: int | None = None,
    ) -> Operation:
        """Report operational open-set accuracy on a labelled test set.

        Raises if the threshold was chosen on these samples. `alpha` is the weight of
        the known samples in the reported accuracy; by default that of the threshold,
        else 0.5.
        """
        self._check(outputs, "Rejector.operate")
        scores = self.fitted.score(outputs, batch_size=batch_size)
        return operate(self.threshold, scores, alpha_test=alpha)

    def explain(self, outputs: Outputs, i: int, *, top: int = 5) -> Explanation:
        """Return why sample `i` was accepted or rejected; print it to read it."""
        _check.positive_int("Rejector.explain", "top", top)
        i = _check.integer("Rejector.explain", "i", i, low=-len(outputs))
        if not -len(outputs) <= i < len(outputs):
            rule = f"in [{-len(outputs)}, {len(outputs) - 1}]"
            msg = _check.must(rule, caller="Rejector.explain", name="i", got=i)
            raise ValueError(msg)
        one = outputs.take([i % len(outputs)])
        decided = self.decide(one)
        scores = decided.scores
        predicted = int(scores.predicted[0])
        best: tuple[tuple[int, str, float], ...] = ()
        if one.logits is not None:
            logits = _xp.to_numpy(one.logits)[0].astype(np.float64)
            order = np.argsort(-logits, kind="stable")[:top]
            best = tuple(
                (int(c), self.name_of(int(c)), float(logits[c])) for c in order
            )
        return Explanation(
            decision=int(decided.labels[0]),
            predicted=predicted,
            name=self.name_of(predicted),
            known=float(scores.known[0]),
            threshold=float(self.threshold.of(scores.predicted)[0]),
            margin=float(self.margins(scores)[0]),
            typical=float(self._share_below(scores.known)[0]),
            top=best,
        )

    def margins(self, scores: Scores | Decisions) -> NDArray[np.float64]:
        """Return knownness minus threshold; a sample is accepted iff it is >= 0.

        Invalid samples of decisions have none: NaN.
        """
        threshold = self.threshold.of(scores.predicted)
        same = scores.known == threshold  # inf - inf is NaN
        with np.errstate(invalid="ignore"):
            return np.where(same, 0.0, scores.known - threshold)

    def name_of(self, label: int) -> str:
        """Return the name of a class; "unknown" for -1.

        A class that is itself called "unknown" gets its number: "unknown (class 3)".
        """
        if label == UNKNOWN:
            return "unknown"
        name = self.classes[label] if label < len(self.classes) else str(label)
        return f"unknown (class {label})" if name == "unknown" else name

    def check_network(self, caller: str, name: str, **got: int | None) -> None:
        """Raise unless a network has as many classes and features as the rejector."""
        for what, found in got.items():
            wanted = self.fitted.widths.get(what)
            if wanted and found and wanted != found:
                msg = _check.must(
                    f"{wanted}, as in the rejector",
                    caller=caller,
                    name=f"{what} of {name}",
                    got=found,
                    remedy="Calibrate the rejector on outputs of the same model",
                )
                raise ValueError(msg)

    def _check(self, outputs: Outputs, caller: str = "Rejector") -> None:
        """Raise unless these are valid outputs of the rejector's network."""
        need_outputs(caller, "outputs", outputs)
        of = "the rejector"
        need_same_classes(caller, outputs, self.classes, of=of, name="outputs")
        check_step(outputs, self.input_step, self.fitted.detector)

    def _share_below(self, known: NDArray[np.float64]) -> NDArray[np.float64]:
        grid = self.reference["known"]
        return np.searchsorted(grid, known, side="right") / grid.size


def need_rejector(caller: str, value: object) -> None:
    """Raise TypeError if the argument is not a rejector."""
    _check.instance(
        caller,
        "rejector",
        value,
        Rejector,
        rule="a Rejector",
        remedy="Calibrate one first: Rejector.calibrate(fitted, known=...)",
    )
