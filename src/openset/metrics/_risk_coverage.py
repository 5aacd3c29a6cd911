"""Selective prediction: the risk-coverage curve and the areas AURC and AUGRC."""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, Self, get_args
from weakref import WeakKeyDictionary

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check
from openset.metrics._ranking_counts import (
    Block,
    Floats,
    RankingCounts,
    blocks,
    both_sides,
    dot,
    ranking_counts,
)
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores, need_known

Over = Literal["all", "known"]


@dataclass(frozen=True, eq=False)
class RiskCoverageCurve:
    """Risk over coverage at every distinct score, strictest threshold first.

    `coverage` is the share of samples accepted, `risk` the share of errors among the
    accepted ones (selective risk), and `generalized_risk` the share of all samples that
    are accepted and wrong. The first threshold, +inf, accepts nothing: coverage and
    generalized risk are 0, and the selective risk is that of the next point. Samples
    with equal scores are accepted together.
    """

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    generalized_risk: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def __repr__(self) -> str:
        everything = f"risk without rejection {self.risk[-1]:.4f}"
        return f"RiskCoverageCurve(points={self.risk.size}, {everything})"


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
    table = _counts("risk_coverage_curve", scores, over)
    accepted, errors = _accepted(table, over)
    # Nothing is accepted at first: the curve starts at the height of its first point.
    # Levels that only unknown samples have, at the start, accept no known sample.
    first = int(np.argmax(accepted > 0))
    risk = errors / np.maximum(accepted, 1)
    risk[:first] = risk[first]
    n = int(accepted[-1])
    return RiskCoverageCurve(
        coverage=accepted / n,
        risk=risk,
        generalized_risk=errors / n,
        thresholds=table.values,
    )


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
    return float(aurc_kernel(_counts("aurc", scores, over), over=over))


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
    return float(augrc_kernel(_counts("augrc", scores, over), over=over))


def _counts(caller: str, scores: Scores, over: Over) -> RankingCounts:
    _check.one_of(caller, "over", over, get_args(Over))
    if over == "all":
        return both_sides(caller, scores)
    need_known(caller, scores)
    return ranking_counts(scores)


def _accepted(table: RankingCounts, over: Over) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return accepted samples and the errors among them, at each level."""
    wrong = table.known - table.correct
    if over == "known":
        return table.known, wrong
    return table.known + table.unknown, wrong + table.unknown


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the levels, of one form, from which both areas are computed.

    `moments` are the sums of g and g² of :func:`augrc_variance`, over known and over
    unknown samples; of one data set only, not of replicates.
    """

    n: int
    risk: Floats
    generalized_risk: Floats
    moments: tuple[Floats, Floats]

    @classmethod
    def zero(cls, n: int, shape: tuple[int, ...]) -> Self:
        """Return sums to add to."""
        return cls(n, np.zeros(shape), np.zeros(shape), (np.zeros(2), np.zeros(2)))


# Four numbers and two variances need the same pass: it is made once for a table of
# counts, and forgotten with it.
_IN_USE: "WeakKeyDictionary[RankingCounts, dict[Over, _Sums]]" = WeakKeyDictionary()


def _sums(table: RankingCounts, over: Over) -> _Sums:
    found = _IN_USE.get(table)
    if found is None:
        found = _IN_USE[table] = _added_up(table)
    return found[over]


def _added_up(table: RankingCounts) -> dict[Over, _Sums]:
    shape = table.unknown.shape[:-1]
    forms: dict[Over, _Sums] = {
        "all": _Sums.zero(table.n_known + table.n_unknown, shape),
        "known": _Sums.zero(table.n_known, shape),
    }
    for block in blocks(table):
        wrong = block.d_known - block.d_correct
        wrong_above = block.known_above - block.correct_above
        _add(
            forms["known"],
            block,
            above=block.known_above,
            at=block.d_known,
            errors_above=wrong_above,
            errors=wrong,
        )
        _add(
            forms["all"],
            block,
            above=block.known_above + block.unknown_above,
            at=block.d_known + block.d_unknown,
            errors_above=wrong_above + block.unknown_above,
            errors=wrong + block.d_unknown,
        )
    return forms


def _add(
    to: _Sums,
    block: Block,
    *,
    above: Floats,
    at: Floats,
    errors_above: Floats,
    errors: Floats,
) -> None:
    r"""Add the levels of a block: accepted samples and errors, above and at each.

    Among m samples with equal scores, e of them errors, below a samples with E errors,
    the expected number of errors is linear: with r = e/m,
    :math:`\sum_{j=1}^m \frac{E + jr}{a + j} = e + (E - ar)(H_{a+m} - H_a)`.
    """
    rate = errors / np.maximum(at, 1)
    to.risk[...] += errors.sum(axis=-1)
    to.risk[...] += dot(errors_above - above * rate, _harmonic(above, at))
    middle = errors_above + errors / 2
    to.generalized_risk[...] += dot(at, middle)
    if to.risk.ndim:
        return
    of_correct = middle / to.n
    of_error = of_correct + (1 - (above + at / 2) / to.n)
    wrong = block.d_known - block.d_correct
    known, unknown = to.moments
    for i, (right, error) in enumerate(
        ((of_correct, of_error), (of_correct * of_correct, of_error * of_error))
    ):
        known[i] += dot(block.d_correct, right) + dot(wrong, error)
        unknown[i] += dot(block.d_unknown, error)


def _harmonic(above: Floats, at: Floats) -> Floats:
    """Sum of 1/(above + 1) to 1/(above + at)."""
    found = (at > 0) / (above + 1)
    tied = at > 1
    if tied.any():
        found[tied] = _digamma_step(above[tied] + 1, at[tied])
    return found


def _digamma_step(low: Floats, by: Floats) -> Floats:
    """Digamma function at ``low + by`` minus digamma function at `low`.

    Subtracting two values loses the digits they share, which adds up over the levels of
    large data. The asymptotic series can be subtracted term by term.
    """
    high = low + by
    found = np.log1p(by / low) + by / (2 * low * high) + _tail(high) - _tail(low)
    small = low < _SERIES_FROM
    if small.any():
        digamma = scipy.special.digamma
        found[small] = digamma(high[small]) - digamma(low[small])
    return found


_SERIES_FROM = 32  # the first term left out is below 1e-17


def _tail(x: Floats) -> Floats:
    """Digamma function minus its leading terms log x - 1/2x, for large x."""
    square = 1 / (x * x)
    inner = 1 / 252 - square / 240
    return -square * (1 / 12 - square * (1 / 120 - square * inner))


def aurc_kernel(table: RankingCounts, *, over: Over = "all") -> Floats:
    """Compute it for every replicate."""
    sums = _sums(table, over)
    return sums.risk / sums.n


def augrc_kernel(table: RankingCounts, *, over: Over = "all") -> Floats:
    """Compute it for every replicate."""
    sums = _sums(table, over)
    return sums.generalized_risk / float(sums.n) ** 2


def augrc_variance(table: RankingCounts, *, over: Over = "all") -> tuple[float, float]:
    r"""Return its sampling variance; the normal distribution fits it.

    AUGRC is the mean of :math:`h_{ij} = e_i ([s_i > s_j] + \frac12 [s_i = s_j])` over
    all pairs. Sample i contributes the mean of its row and of its column,
    :math:`g_i = \bar h_{i\cdot} + \bar h_{\cdot i}`; the numbers of known and unknown
    samples are fixed, so the variance is :math:`(N_k S_k^2 + N_u S_u^2) / n^2`, where
    S² are the variances of g among known and among unknown samples.
    """
    sums = _sums(table, over)
    sides = [(table.n_known, sums.moments[0]), (table.n_unknown, sums.moments[1])]
    variance = 0.0
    for size, (total, squares) in sides if over == "all" else sides[:1]:
        if size < 2:
            return float("nan"), inf
        spread = max(float(squares - total**2 / size), 0.0) / (size - 1)
        variance += size * spread / sums.n**2
    return variance, inf


_GEIFMAN = "Geifman et al., ICLR 2019; Kim et al., 2021"
_TRAUB = "Traub et al., NeurIPS 2024"
_AURC = Metric(
    aurc,
    label="AURC, unknowns as errors",
    short="AURC",
    better="lower",
    bounds=UNIT,
    reference=_GEIFMAN,
    kernel=aurc_kernel,
    order=35,
    aliases=("area_under_risk_coverage",),
    counts_errors_of="both",
    moves_with_prevalence=True,
)
_AUGRC = replace(
    _AURC,
    function=augrc,
    key="augrc",
    label="AUGRC, unknowns as errors",
    short="AUGRC",
    bounds=(0.0, 0.5),
    reference=_TRAUB,
    kernel=augrc_kernel,
    variance=augrc_variance,
    order=36,
    aliases=(),
)
register(
    _AURC,
    _AUGRC,
    *(
        replace(
            row,
            key=f"{row.key}_known",
            label=f"{row.short} of known samples",
            short=f"{row.short}, known",
            params={"over": "known"},
            order=row.order + 2,
            aliases=(),
            counts_errors_of="classification",
            moves_with_prevalence=False,
        )
        for row in (_AURC, _AUGRC)
    ),
    Metric(
        risk_coverage_curve,
        label="Risk-coverage curve",
        kind="curve",
        better="neither",
        reference=_GEIFMAN,
    ),
)
