"""Risk of selective classification with unknown samples (SCOD)."""

import numpy as np

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics._class_counts import ClassCounts, Floats, class_counts
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores


def scod_risk(
    scores: Scores, threshold: float, *, beta: float = 1.0, alpha: float | None = None
) -> float:
    r"""Mean cost of an accepted sample: wrong class 1, unknown β.

    .. math:: R(\theta) = \frac{\alpha\,(\mathrm{TPR} - \mathrm{CCR})
              + (1 - \alpha)\,\beta\,\mathrm{FPR}}
              {\alpha\,\mathrm{TPR} + (1 - \alpha)\,\mathrm{FPR}}

    where TPR and FPR are the shares of known and of unknown samples accepted. Rejected
    samples cost nothing, so read it together with the coverage: rejecting more lowers
    it. If nothing is accepted, it is undefined.

    With the defaults it is the selective risk of :func:`risk_coverage_curve`, where an
    accepted unknown sample is an error like any other. Xia and Bouganis take
    ``alpha=0.5, beta=0.5``; Narasimhan et al. weigh errors of known samples with
    :math:`1 - c_{fn}` and unknown samples with :math:`c_{fn}`, which is
    :math:`1 - c_{fn}` times this risk for :math:`\beta = c_{fn} / (1 - c_{fn})`.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    beta
        Cost of accepting an unknown sample, relative to a wrong class.
    alpha
        Share of known samples in operation; by default that of the data.

    References
    ----------
    Xia and Bouganis, "Augmenting softmax information for selective classification with
    out-of-distribution data", ACCV 2022; Narasimhan et al., "Plugin estimators for
    selective classification with out-of-distribution detection", ICLR 2024.

    Examples
    --------
    Three samples are accepted: one is right, one of the wrong class, one unknown.

    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0, 1, 0, 0], known=[4, 3, 2, 1]
    ... )
    >>> round(scod_risk(scores, 2), 4), scod_risk(scores, 2, beta=0.5)
    (0.6667, 0.5)
    """
    caller = "scod_risk"
    _check.number(caller, "beta", beta, low=0)
    if alpha is not None:
        _check.rate(caller, "alpha", alpha)
    counts = class_counts(scores, threshold, caller=caller)
    return float(kernel(counts, beta=beta, alpha=alpha))


def kernel(
    counts: ClassCounts, *, beta: float = 1.0, alpha: float | None = None
) -> Floats:
    """Compute it for every replicate; one that accepts nothing has no errors, so 0."""
    wrong, unknown = counts.false_known.sum(axis=-1), counts.accepted_unknown
    accepted = counts.accepted_known
    if alpha is not None:
        wrong = alpha * wrong / counts.n_known
        accepted = alpha * accepted / counts.n_known
        unknown = (1 - alpha) * unknown / counts.n_unknown
    accepted = accepted + unknown
    if np.ndim(accepted) == 0 and not accepted > 0:
        msg = "scod_risk: undefined if no sample is accepted. Use a lower threshold"
        raise UndefinedMetricError(msg)
    return (wrong + beta * unknown) / np.where(accepted > 0, accepted, 1)


register(
    Metric(
        scod_risk,
        label="SCOD risk of accepted samples",
        short="SCOD risk",
        kind="threshold",
        better="lower",
        bounds=UNIT,  # of this row, with β = 1
        reference="Xia & Bouganis, ACCV 2022; Narasimhan et al., ICLR 2024",
        kernel=kernel,
        order=39,
        aliases=("selective_risk",),
        counts_errors_of="both",
        moves_with_prevalence=True,
    )
)
