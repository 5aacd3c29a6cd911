"""Show on your own data how a metric can hide bad open-set decisions.

Propositions 1-3 of the OpenAUC paper are constructions: from any scores they build a
*twin* with the same (or a better) value of the metric that rejects no unknown sample,
or ranks misclassified samples first. :func:`twin` builds them from yours, to show how
much a metric could hide. Propositions 4-8 state properties of OpenAUC, which hold on
any data.

References
----------
Wang et al., "OpenAUC: towards AUC-oriented open-set recognition", NeurIPS 2022.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from openset import _check
from openset.metrics import Rates, get, openauc
from openset.scores import Scores, need_both_sides

Fooled = Literal[
    "f_score", "youden", "normalized_accuracy", "acc_times_auroc", "acc_plus_auroc"
]


@dataclass(frozen=True, eq=False)
class Twin:
    """Adversarial scores, with the values of two metrics before and after.

    `found_before` and `found_after` count the unknown samples rejected at the
    threshold. A construction that reached its end leaves none for F and Youden, and one
    for normalized accuracy (whose AUS would be 0/0).
    """

    scores: Scores
    metric: str
    before: float
    after: float
    openauc_before: float
    openauc_after: float
    found_before: int
    found_after: int


def twin(scores: Scores, metric: Fooled, threshold: float) -> Twin:
    """Build scores with the same value of the metric, but worse decisions.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    metric
        ``"f_score"`` or ``"youden"`` (Prop. 1: each rejected unknown changes places
        with an accepted known of wrong class), ``"normalized_accuracy"`` (Prop. 2:
        unknowns are accepted together with known samples), ``"acc_times_auroc"`` or
        ``"acc_plus_auroc"`` (Prop. 3: misclassified known samples take the highest
        scores).
    threshold
        The operating point.

    Both sides average over classes ``0..C-1`` (C: `n_classes`, or the largest class
    that occurs plus one).

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 1, -1], predicted=[0, 1, 1, 0], known=[0.9, 0.8, 0.7, 0.1]
    ... )
    >>> fooled = twin(scores, "f_score", 0.5)
    >>> fooled.before == fooled.after, fooled.found_before, fooled.found_after
    (True, 1, 0)
    >>> round(fooled.openauc_before, 4), round(fooled.openauc_after, 4)
    (0.6667, 0.3333)
    """
    _check.one_of("twin", "metric", metric, get_args(Fooled))
    threshold = _check.threshold("twin", threshold)
    need_both_sides("twin", scores)
    if scores.n_classes is None:
        # A class predicted only for changed samples must stay in the average.
        scores = replace(scores, n_classes=int(scores.classes[-1]) + 1)
    if get(metric).kind == "ranking":
        other = _reordered(scores)
    else:
        build = _let_in if metric == "normalized_accuracy" else _exchanged
        other = build(scores, threshold)
    return Twin(
        scores=other,
        metric=metric,
        before=get(metric).value(scores, threshold),
        after=get(metric).value(other, threshold),
        openauc_before=openauc(scores),
        openauc_after=openauc(other),
        found_before=Rates.at(scores, threshold).n_rejected_unknown,
        found_after=Rates.at(other, threshold).n_rejected_unknown,
    )


def _exchanged(scores: Scores, threshold: float) -> Scores:
    """Prop. 1: exchange rejected unknowns with accepted, misclassified known samples.

    The paper asks for as many false positives of the known classes as there are
    rejected unknowns. Only those that are known samples can change places, so that is
    what limits us.
    """
    accepted = scores.known >= threshold
    rejected = np.flatnonzero(scores.is_unknown & ~accepted)
    wrong = np.flatnonzero(~scores.is_unknown & ~scores.is_correct & accepted)
    n = min(rejected.size, wrong.size)
    unknown, known = rejected[:n], wrong[:n]
    values, predicted = scores.known.copy(), scores.predicted.copy()
    values[unknown], values[known] = scores.known[known], scores.known[unknown]
    predicted[unknown] = scores.predicted[known]
    return replace(scores, known=values, predicted=predicted)


def _let_in(scores: Scores, threshold: float) -> Scores:
    """Prop. 2: for each wrong known, accept it with the right class, and an unknown.

    First rejected known samples, until only unknowns are rejected and AUS (a precision)
    is 1; then accepted but misclassified known samples, which raises AKS. One unknown
    stays rejected: with none, AUS is 0/0.
    """
    accepted = scores.known >= threshold
    rejected = np.flatnonzero(scores.is_unknown & ~accepted)[1:]
    missed = np.flatnonzero(~scores.is_unknown & ~(scores.is_correct & accepted))
    missed = missed[np.argsort(accepted[missed], kind="stable")]  # rejected ones first
    n = min(rejected.size, missed.size)
    unknown, known = rejected[:n], missed[:n]
    values, predicted = scores.known.copy(), scores.predicted.copy()
    values[unknown] = threshold
    values[known] = np.maximum(values[known], threshold)
    predicted[known] = predicted[unknown] = scores.labels[known]
    return replace(scores, known=values, predicted=predicted)


def _reordered(scores: Scores) -> Scores:
    """Prop. 3: the same known scores, the highest given to misclassified samples.

    Accuracy and AUROC see no difference: no class changed, and neither did the set of
    known scores.
    """
    known = np.flatnonzero(~scores.is_unknown)
    # Right ones first; in each half the order stays.
    order = known[np.lexsort([scores.known[known], ~scores.is_correct[known]])]
    values = scores.known.copy()
    values[order] = np.sort(scores.known[known])
    return replace(scores, known=values)
