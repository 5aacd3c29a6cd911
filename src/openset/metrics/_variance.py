r"""Sampling variance of AUROC, OpenAUC and partial OpenAUC.

All three are two-sample U-statistics: the mean over (known i, unknown j) of a kernel
:math:`h_{ij} = c_i \phi(k_i, u_j)`, where :math:`c_i` is 1 for AUROC, and for the
others 1 if i is classified correctly and 0 if not. With placement values
:math:`V_i = \operatorname{mean}_j h_{ij}` and
:math:`W_j = \operatorname{mean}_i h_{ij}`,

.. math:: \operatorname{Var} = \frac{\zeta_{10}}{N_k} + \frac{\zeta_{01}}{N_u}
          + \frac{\zeta_g}{N_k N_u}.

The sample variances of V and W overestimate :math:`\zeta_{10}` by
:math:`\zeta_g / N_u` and :math:`\zeta_{01}` by :math:`\zeta_g / N_k`, so DeLong's
estimator counts the third term twice; it is subtracted once here, which makes the
estimate unbiased.
"""

import numpy as np

from openset import _check
from openset.metrics._ranking_counts import Pairs, RankingCounts, blocks, dot


def pair_variance(pairs: Pairs, n_known: int, n_unknown: int) -> float:
    """Variance of the mean over pairs, ties counted half. NaN with one on a side."""
    if min(n_known, n_unknown) < 2:
        return float("nan")
    n_pairs = n_known * n_unknown
    mean = float(pairs.won + pairs.tied / 2) / n_pairs
    squared_v = float(pairs.squared_v) / n_unknown**2
    squared_w = float(pairs.squared_w) / n_known**2
    spread_v = squared_v - n_known * mean**2
    spread_w = squared_w - n_unknown * mean**2
    delong = spread_v / (n_known - 1) / n_known + spread_w / (n_unknown - 1) / n_unknown
    squared_h = float(pairs.won + pairs.tied / 4)
    rest = squared_h - n_unknown * squared_v - n_known * squared_w + n_pairs * mean**2
    zeta = rest / ((n_known - 1) * (n_unknown - 1))
    return max(delong - zeta / n_pairs, 0.0)


def partial_variance(table: RankingCounts, max_fpr: float) -> tuple[float, float]:
    r"""Variance of P(β)/β, by its influence function.

    A known sample contributes :math:`c_i (\beta - \mathrm{FPR}(k_i))_+`; an unknown one
    :math:`\min(\mathrm{CCR}(u_j) - \mathrm{CCR}(q), 0)`, where q is the threshold at
    FPR = β. Subtracting CCR(q) accounts for q being estimated from the same unknowns.
    Where a share p of the samples tied at q is inside the range, these contribute
    :math:`c_i p^2 / 2` of the step's width, and :math:`-p^2 / 2` of its height.

    The term of the unknowns is estimated from those inside the range only, β·N_u of
    them. With so few samples a t quantile is needed: the second number returned is its
    degrees of freedom, after Satterthwaite.
    """
    n_known, n_unknown = table.n_known, table.n_unknown
    if min(n_known, n_unknown) < 2:
        return float("nan"), float("nan")
    bound = float(max_fpr)
    budget = float(_check.fraction(bound) * n_unknown)
    # CCR at FPR = β, linear inside a tied step.
    next_level = int(np.searchsorted(table.unknown, budget, side="right"))
    around = slice(next_level - 1, next_level + 1)
    hits = np.interp(budget, table.unknown[around], table.correct[around])
    at_bound = float(hits) / n_known
    sums = np.zeros(4)  # V, V², W, W²
    for block in blocks(table):  # pragma: no branch: the last reaches the budget
        fpr = (block.unknown_above + block.d_unknown / 2) / n_unknown
        v = np.maximum(bound - fpr, 0)
        ccr = (block.correct_above + block.d_correct / 2) / n_known
        w = np.where(block.unknown <= budget, ccr - at_bound, 0)
        is_cut = (block.unknown_above < budget) & (budget < block.unknown)
        inside = (budget - block.unknown_above[is_cut]) / block.d_unknown[is_cut]
        v[is_cut] = inside**2 / 2 * block.d_unknown[is_cut] / n_unknown
        w[is_cut] = -(inside**2) / 2 * block.d_correct[is_cut] / n_known
        sums += [
            float(dot(block.d_correct, v)),
            float(dot(block.d_correct, v * v)),
            float(dot(block.d_unknown, w)),
            float(dot(block.d_unknown, w * w)),
        ]
        if block.unknown[-1] >= budget:
            break
    spread_v = sums[1] - sums[0] ** 2 / n_known
    spread_w = sums[3] - sums[2] ** 2 / n_unknown
    of_known = max(spread_v, 0.0) / (n_known - 1) / n_known
    of_unknown = max(spread_w, 0.0) / (n_unknown - 1) / n_unknown
    variance = of_known + of_unknown
    if variance == 0:
        return 0.0, float("nan")
    per_freedom = of_known**2 / (n_known - 1) + of_unknown**2 / max(budget, 1.0)
    return variance / bound**2, variance**2 / per_freedom
