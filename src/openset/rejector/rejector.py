"""`Rejector`: decides for each sample whether it is of a known class or unknown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import UNKNOWN, InvalidSamplesError
from openset.detectors import Fitted
from openset.metrics.counts import Alpha, ranking_counts
from openset.outputs import (
    Outputs,
    need_kind,
    need_outputs,
    need_same_classes,
    replaced,
)
from openset.outputs.seen import need_unseen
from openset.rejector import calibrate, files
from openset.rejector.decisions import Decisions, Tables
from openset.rejector.network import warn_of_another
from openset.rejector.sets import SetRule
from openset.scores import Scores
from openset.selection import Choice
from openset.thresholds import (
    Caution,
    Operation,
    Report,
    Threshold,
    choose_by,
    operate,
    report,
)

Invalid = Literal["error", "reject"]
"""What a rejector does with invalid samples."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Rejector(Tables):
    """A fitted detector and the threshold on its scores; see :meth:`calibrate`.

    Attributes
    ----------
    fitted
        The fitted detector.
    threshold
        Samples with a knownness of at least its value are accepted.
    report
        What the threshold does on the calibration samples.
    classes
        Names of the known classes, if the calibration samples had them.
    reference
        What is kept of the calibration samples, to compare new ones with: evenly spaced
        quantiles of the scores, smallest first, at most 1025 of the ``"known"`` samples
        and of the ``"unknown"`` ones; ``"features"`` of some known samples, drawn at
        random; of the network a part of the last layer (``"weight"``, ``"bias"``) and
        the ``"mean"`` of the features. Outputs that seem to be of another network are
        warned of.
    sets
        The rule of the prediction sets, if there are any.
    input_step
        How the inputs of the calibration were perturbed along a gradient (ODIN), if
        they were: outputs of other inputs are refused.

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

    fitted: Fitted
    threshold: Threshold
    report: Report
    classes: tuple[str, ...] = ()
    reference: Mapping[str, NDArray[Any]]
    sets: SetRule | None = None
    input_step: str = ""

    @classmethod
    def calibrate(
        cls,
        fitted: Fitted | Choice,
        *,
        known: Outputs,
        surrogate: Outputs | str | Sequence[Outputs | str] | None = None,
        objective: str | Callable[..., Threshold] = "osa",
        alpha: Alpha | None = None,
        train: Outputs | None = None,
        accept_risk: bool = False,
        sets: float | None = None,
        **options: Any,
    ) -> Self:
        """Choose the threshold on known validation samples and surrogate unknowns.

        Parameters
        ----------
        fitted
            A fitted detector, or the result of :func:`openset.selection.choose`.
        known
            Labelled outputs the detector was not fitted on: training samples among them
            are refused. Samples labelled -1 are used like `surrogate`.
        surrogate
            Outputs of unknown samples (labels -1, or none), one set or several.
            ``"mixup"`` or ``"left-out"`` makes synthetic ones from `known`
            (:func:`openset.selection.synthetic`), and the report says so. Not needed
            for ``"at_tpr"`` and ``"conformal"``.
        objective
            Name of a function of :mod:`openset.thresholds` (``"osa"``,
            ``"worst_group"``, ``"by_cost"``, ``"at_fpr"``, ``"at_tpr"``,
            ``"conformal"``), or any function from scores to a threshold.
        alpha
            Weight of the known samples, for the objectives that have one. By default
            that of the choice, else 0.5; ``"counts"`` takes the share of known samples
            in the calibration data.
        train
            The outputs the detector was fitted on. With them, known classes are left
            out in turn and stand in for unknowns that resemble the known classes, to
            check whether the threshold suits these.
        accept_risk
            Return a rejector even if it rejects or accepts nearly everything.
        sets
            A share such as 0.9: also give each accepted sample a set of classes
            (:class:`SetRule`) that contains its class for this share of them.
        **options
            Passed to the objective, e.g. ``fpr=0.01``.

        Raises
        ------
        CalibrationError
            If the threshold would reject or accept nearly everything.

        Warns
        -----
        CalibrationWarning
            For every other sign that it may not work on new data (`report.cautions`).
        """
        if isinstance(fitted, Choice):
            alpha = fitted.alpha if alpha is None else alpha
            fitted = fitted.fitted
        calibrate.need_validation(fitted, known, with_logits=sets is not None)
        fitted = fitted.with_widths_of(known)
        scores = calibrate.scores_of(fitted, known, surrogate)
        calibrate.need_unknowns(objective, scores)
        # The one sort: the objective and the report find these counts in use.
        counts = ranking_counts(scores)
        threshold = choose_by(
            objective, scores, caller=calibrate.CALLER, alpha=alpha, options=options
        )
        near = None if train is None else calibrate.near(fitted, train, known)
        made = report(scores, threshold, near=near)
        calibrate.warn_of(made.cautions, accept_risk=accept_risk)
        rule = None
        if sets is not None:
            kept = threshold.accepts(scores)[: len(known)] & (known.labels != UNKNOWN)
            logits = _xp.to_numpy(known.logits)[kept]
            rule = SetRule.calibrate(logits, known.labels[kept], coverage=sets)  # type: ignore[index]
        return cls(
            fitted=fitted,
            threshold=threshold,
            report=made,
            classes=known.classes,
            reference=calibrate.kept_of(counts, known),
            sets=rule,
            input_step=known.input_step,
        )

    def __repr__(self) -> str:
        return f"Rejector({self.fitted.detector!r}, threshold {self.threshold})"

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Signs in the calibration data that the threshold may not work on new data."""
        return self.report.cautions

    def score(
        self, outputs: Outputs, *, rows: NDArray[np.int64] | None = None
    ) -> Scores:
        """Return the detector's scores, of all samples or of some rows.

        Unlabelled samples get the label -1 in them.
        """
        self._check(outputs)
        if outputs.labels is None:  # not used in scoring, only copied to the result
            outputs = outputs.as_unknown()
        scores = self.fitted.score(outputs, rows=rows)
        warn_of_another("Rejector", outputs, self.reference)
        return scores

    def decide(
        self,
        outputs: Outputs,
        *,
        threshold: float | None = None,
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
        need_kind("Rejector.decide", "outputs", outputs)
        n = len(outputs)
        bad = np.zeros(n, dtype=bool)
        if invalid == "reject":
            bad = outputs.is_invalid.copy()
            outputs = replaced(outputs, invalid="error")
            self._check(outputs)  # now, as all samples may be invalid
            self.fitted.check_outputs(outputs)
        labels, predicted = np.full(n, UNKNOWN), np.full(n, UNKNOWN)
        known = np.full(n, np.nan)
        while not bad.all():
            rows = np.flatnonzero(~bad) if bad.any() else None
            try:
                scores = self.score(outputs, rows=rows)
            except InvalidSamplesError as error:
                new = list(error.rows)
                if invalid == "error" or bad[new].all():  # it would raise for ever
                    raise
                bad[new] = True
            else:
                known[~bad], predicted[~bad] = scores.known, scores.predicted
                at = self.threshold.value if threshold is None else threshold
                labels[~bad] = scores.decided(at)
                break
        sets = None
        if self.sets is not None:
            if outputs.logits is None:
                rule = "with logits, from which prediction sets are made"
                _check.fail("Rejector.decide", "outputs", rule, "features only")
            sets = self.sets.contains(_xp.to_numpy(outputs.logits))
            sets[labels == UNKNOWN] = False
        return Decisions(
            labels=labels, predicted=predicted, known=known, is_invalid=bad, sets=sets
        )

    def predict(
        self, outputs: Outputs, *, invalid: Invalid = "error"
    ) -> NDArray[np.int64]:
        """Return the class of each sample, or -1 for unknown.

        With ``invalid="reject"`` it is -1 for invalid samples too: see :meth:`decide`.
        """
        return self.decide(outputs, invalid=invalid).labels

    def known(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the knownness of each sample, larger = more known."""
        self._check(outputs)
        return self.fitted.known(outputs)

    def operate(self, outputs: Outputs, *, alpha: Alpha | None = None) -> Operation:
        """Report operational open-set accuracy on a labelled test set.

        Raises if the detector was fitted, or the threshold chosen, on these samples.
        `alpha` is the weight of the known samples in the reported accuracy; by default
        that of the threshold, else 0.5.
        """
        self._check(outputs)
        need_unseen("Rejector.operate", "outputs", outputs, self.fitted.seen)
        return operate(self.threshold, self.fitted.score(outputs), alpha_test=alpha)

    def save(self, folder: str | Path) -> Path:
        """Write a folder with ``manifest.json`` and one ``.npz``. No pickle.

        An existing rejector is replaced in one step. The hashes in the manifest detect
        damage; to detect deliberate changes sign the folder, for example with sigstore.
        """
        return files.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, plugins: Sequence[str] = ()) -> Self:
        """Read what :meth:`save` wrote.

        Raises `ArtefactError` if the folder is damaged, changed, or of a newer version.

        Parameters
        ----------
        folder
            What :meth:`save` wrote; or the URL of such a folder, ``s3://...``,
            ``https://...`` or another one that fsspec knows (extra ``cloud``).
        plugins
            Detectors from outside the package that may be imported, each as
            ``"package.module:Class"``: the file does not decide what is imported.
        """
        return cls(**files.load(folder, plugins))

    def _check(self, outputs: Outputs) -> None:
        """Raise unless these are valid outputs of the rejector's network."""
        need_outputs("Rejector", "outputs", outputs)
        of = "the rejector"
        need_same_classes("Rejector", outputs, self.classes, of=of, name="outputs")
        wanted, got = self.input_step, outputs.input_step
        if got != wanted:
            _check.fail(
                "Rejector",
                "outputs",
                f"of inputs perturbed by {wanted or 'nothing'}, as in the calibration",
                f"inputs perturbed by {got or 'nothing'}",
                f"Extract them anew with --step {wanted!r}; of code of your own, give "
                "Outputs(..., input_step=rejector.input_step)",
            )


def need_rejector(caller: str, value: object) -> None:
    """Raise TypeError if the argument is not a rejector."""
    remedy = "Calibrate one first: Rejector.calibrate(fitted, known=...)"
    rule = "a Rejector"
    _check.instance(caller, "rejector", value, Rejector, rule=rule, remedy=remedy)
