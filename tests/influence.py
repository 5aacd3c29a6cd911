"""The influence of each sample on an area under the OSCR curve, by nudging it."""

import numpy as np


def weighted_area(scores, bound, weights, *, counts=None):
    """Area for FPR ≤ bound where each sample counts as often as its weight says.

    `counts` flags the known samples that are credited, by default the correct ones.
    """
    counts = scores.is_correct if counts is None else counts
    is_known = ~scores.is_unknown
    of_known = np.where(is_known, weights, 0) / weights[is_known].sum()
    of_unknown = np.where(is_known, 0, weights) / weights[~is_known].sum()
    x = y = area = 0.0
    for value in sorted(set(scores.known.tolist()), reverse=True):
        at = scores.known == value
        dx = of_unknown[at].sum()
        dy = of_known[at & counts].sum()
        inside = min(max(bound - x, 0.0), dx)
        area += inside * (y + (dy * inside / dx if dx else 0.0) / 2)
        x, y = x + dx, y + dy
    return area


def influence(scores, bound, *, counts=None):
    """How the area changes as a sample counts a little more: knowns, then unknowns."""
    n, step = len(scores), 1e-6
    found = np.empty(n)
    for i in range(n):
        nudge = step * (np.arange(n) == i)
        more, less = (
            weighted_area(scores, bound, 1 + sign * nudge, counts=counts)
            for sign in (1, -1)
        )
        found[i] = (more - less) / (2 * step)
    sides = ~scores.is_unknown, scores.is_unknown
    return [found[side] * np.count_nonzero(side) for side in sides]
