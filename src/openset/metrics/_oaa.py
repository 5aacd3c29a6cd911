"""Outlier-aware accuracy: correct samples accepted, all others rejected."""

from openset.metrics._class_counts import ClassCounts, Floats, class_counts
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores


def oaa(scores: Scores, threshold: float) -> float:
    r"""Outlier-aware accuracy: correct samples accepted, all others rejected.

    .. math:: \mathrm{OAA}(\theta) = \frac1n \Bigl(
              \sum_{i \in K} [\hat y_i = y_i][s_i \ge \theta]
              + \sum_{i \in K} [\hat y_i \ne y_i][s_i < \theta]
              + \sum_{j \in U} [s_j < \theta] \Bigr)

    It differs from :func:`osa` in the middle term: rejecting a known sample that would
    get the wrong class counts as right here, and as an error there. So OAA is at least
    OSA with ``alpha="counts"``. It measures whether the detector finds the *errors* of
    the classifier, while OSA measures whether the decision is the right class or
    "unknown". The mean of OAA over all coverages is ½ + ε − 2·AUGRC, with error rate ε.

    The paper reports it for data with covariate shift, which count as known samples.
    The authors' code (github.com/Visual-AI/Dissect-OOD-OSR, utils/evaluation.py at
    commit d0e3141b) returns two shares of all samples: accepted and predicted
    correctly, rejected and predicted wrongly; a sample at the threshold is accepted.
    OAA is their sum: an unknown sample has no class that could be predicted correctly.
    How the threshold is chosen is not part of that code.

    References
    ----------
    Wang, Vaze and Han, "Dissecting out-of-distribution detection and open-set
    recognition", IJCV 2024.

    Examples
    --------
    The second sample is misclassified and rejected.

    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 1, 2])
    >>> round(oaa(scores, 3), 4), round(oaa(scores, 2), 4)
    (1.0, 0.6667)
    """
    return float(kernel(class_counts(scores, threshold, caller="oaa")))


def kernel(counts: ClassCounts) -> Floats:
    """Compute it for every replicate."""
    hits = counts.hits.sum(axis=-1)
    wrong = counts.n_known - counts.closed_hits.sum(axis=-1)
    found = wrong - counts.false_known.sum(axis=-1)
    return (hits + found + counts.rejected_unknown) / counts.n


register(
    Metric(
        oaa,
        label="Outlier-aware accuracy (OAA)",
        short="OAA",
        kind="threshold",
        better="higher",
        bounds=UNIT,
        reference="Wang et al., IJCV 2024",
        kernel=kernel,
        order=40,
        aliases=("outlier_aware_accuracy",),
        counts_errors_of="both",
        moves_with_prevalence=True,
    )
)
