"""Selective classification: how wrong the accepted samples are, at what coverage."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics.counts import class_counts, ranking_counts
from openset.metrics.curves import Curve
from openset.metrics.registry import Cost, metric
from openset.metrics.sums import Floats, Numbers
from openset.scores import Scores

Over = Literal["all", "known"]


@metric
def aurc(scores: Scores, *, over: Over = "all") -> float:
    r"""Area under the risk-coverage curve: the mean risk of the best k samples.

    .. math:: \mathrm{AURC} = \frac1n \sum_{k=1}^{n} \frac{E_k}{k}

    where E_k is the number of errors among the k samples of highest knownness. Of
    samples with equal scores, every order counts equally: E_k is its expectation over
    them, in closed form, so the order of the rows does not matter.

    The first samples weigh most: an error in first place counts in all n terms, with
    weights 1, 1/2, 1/3 and so on. :func:`augrc` weighs all samples alike. The value
    depends on the share of unknown samples in the data; compare it on the same data
    only.

    Parameters
    ----------
    scores
        Labelled scores.
    over
        ``"all"``: with unknown samples, each of which is an error when accepted (Kim et
        al.). ``"known"``: of the known samples alone (Geifman et al.).

    References
    ----------
    Geifman, Uziel and El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
    classifiers", ICLR 2019 (the mean over k; some public code takes trapezoids); Kim et
    al., "A unified benchmark for the unknown detection capability of deep neural
    networks", 2021.

    Examples
    --------
    The risks of the best 1, 2 and 3 samples are 0, 1/2 and 1/3.

    >>> scores = Scores(labels=[0, -1, 0], predicted=[0, 0, 0], known=[3, 2, 1])
    >>> round(aurc(scores), 4), aurc(scores, over="known")
    (0.2778, 0.0)
    """
    n, risk, _ = _risks("aurc", scores, over)
    return risk / n


@metric
def augrc(scores: Scores, *, over: Over = "all") -> float:
    r"""Area under the generalized risk-coverage curve: mean share of accepted errors.

    .. math:: \mathrm{AUGRC} = \int_0^1 \frac{E(c)}{n} \, dc
              = \frac{1}{n^2} \sum_{i \in E} \sum_{j}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    where E(c)/n is the share of samples that are accepted and wrong at coverage c, and
    j runs over all samples, i itself included. Points are joined by straight lines, so
    samples with equal scores enter together and their order does not matter. With
    error rate ε and the AUROC of correct samples against errors it is
    :math:`(1 - \mathrm{AUROC})\,\varepsilon (1 - \varepsilon) + \varepsilon^2 / 2`, so
    between :math:`\varepsilon^2/2` and :math:`\varepsilon - \varepsilon^2/2`.

    With unknown samples as errors and κ the share of known samples,

    .. math:: \mathrm{AUGRC} = \kappa^2\,\mathrm{AUGRC}_{\mathrm{known}}
              + \kappa (1 - \kappa)(1 - \mathrm{OpenAUC}) + (1 - \kappa)^2 / 2 .

    Parameters
    ----------
    scores
        Labelled scores.
    over
        ``"all"``: with unknown samples, each of which is an error when accepted.
        ``"known"``: of the known samples alone.

    References
    ----------
    Traub et al., "Overcoming common flaws in the evaluation of selective classification
    systems", NeurIPS 2024.

    Examples
    --------
    >>> scores = Scores(labels=[0, -1, 0, 0], predicted=[0] * 4, known=[4, 3, 2, 1])
    >>> augrc(scores), augrc(scores, over="known")
    (0.15625, 0.0)
    """
    n, _, generalized = _risks("augrc", scores, over)
    return generalized / float(n) ** 2


def _risks(caller: str, scores: Scores, over: Over) -> tuple[int, Numbers, Numbers]:
    c = ranking_counts(scores)
    if over == "all":
        _check.both_sides(caller, c.n_known, c.n_unknown)
    return c.risks[over]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RiskCoverageCurve(Curve):
    """Errors among the accepted samples (`risk`), and accepted errors among all.

    Where nothing is accepted, the risk is that of the next point.
    """

    coverage: Floats
    risk: Floats
    generalized_risk: Floats


@metric
def risk_coverage_curve(scores: Scores, *, over: Over = "all") -> RiskCoverageCurve:
    r"""Share of errors among accepted samples, over the share accepted.

    .. math:: \mathrm{coverage}(\theta) = \frac{A(\theta)}{n}, \qquad
              \mathrm{risk}(\theta) = \frac{E(\theta)}{A(\theta)}, \qquad
              \mathrm{generalized\ risk}(\theta) = \frac{E(\theta)}{n}

    with A accepted samples, of which E are errors: known samples of the wrong class
    and, with ``over="all"``, every accepted unknown sample.

    Parameters
    ----------
    scores
        Labelled scores.
    over
        ``"all"``: known and unknown samples; accepting an unknown sample is an error.
        ``"known"``: the closed-set form; unknown samples are left out.

    References
    ----------
    El-Yaniv and Wiener, "On the foundations of noise-free selective classification",
    JMLR 2010; Kim et al., "A unified benchmark for the unknown detection capability of
    deep neural networks", 2021 (unknown samples as errors).

    Examples
    --------
    >>> curve = risk_coverage_curve(
    ...     Scores(labels=[0, 0, -1, 0], predicted=[0, 1, 0, 0], known=[4, 2, 3, 1])
    ... )
    >>> curve.coverage, curve.risk.round(2)
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), array([0.  , 0.  , 0.5 , 0.67, 0.5 ]))
    """
    c = ranking_counts(scores)
    accepted, errors = c.known, c.known - c.correct
    if over == "all":
        _check.both_sides("risk_coverage_curve", c.n_known, c.n_unknown)
        accepted, errors = accepted + c.unknown, errors + c.unknown
    first = int(np.argmax(accepted > 0))
    risk = errors / np.maximum(accepted, 1)
    risk[:first] = risk[first]
    n = int(accepted[-1])
    return RiskCoverageCurve(
        thresholds=c.values,
        coverage=accepted / n,
        risk=risk,
        generalized_risk=errors / n,
    )


@metric
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
    c = class_counts(scores, threshold)
    wrong_found = (c.closed_false - c.false_known).sum(axis=-1)
    return (c.n_hits + wrong_found + c.rejected_unknown) / c.n


@metric
def scod_risk(scores: Scores, threshold: float, *, beta: Cost = 1.0) -> float:
    r"""Mean cost of an accepted sample: wrong class 1, unknown β.

    .. math:: R(\theta) = \frac{\alpha\,(\mathrm{TPR} - \mathrm{CCR})
              + (1 - \alpha)\,\beta\,\mathrm{FPR}}
              {\alpha\,\mathrm{TPR} + (1 - \alpha)\,\mathrm{FPR}}

    where TPR and FPR are the shares of known and of unknown samples accepted, and α is
    the share of known samples in the data. Rejected samples cost nothing, so read it
    together with the coverage: rejecting more lowers it. If nothing is accepted, it is
    undefined.

    By default it is the selective risk of :func:`risk_coverage_curve`, where an
    accepted unknown sample is an error like any other. Xia and Bouganis take β = 0.5;
    Narasimhan et al. weigh errors of known samples with :math:`1 - c_{fn}` and unknown
    samples with :math:`c_{fn}`, which is :math:`1 - c_{fn}` times this risk for
    :math:`\beta = c_{fn} / (1 - c_{fn})`.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    beta
        Cost of accepting an unknown sample, relative to a wrong class.

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
    c = class_counts(scores, threshold)
    wrong, unknown = c.false_known.sum(axis=-1), c.accepted_unknown
    accepted = c.accepted_known + unknown
    if np.ndim(accepted) == 0 and not accepted > 0:
        msg = "scod_risk: undefined if no sample is accepted. Use a lower threshold"
        raise UndefinedMetricError(msg)
    # (a replicate that accepts nothing makes no errors)
    return (wrong + beta * unknown) / np.where(accepted > 0, accepted, 1)
