"""OSR008: many samples share one score."""

import numpy as np

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.scores import Scores

PAIRS = 0.01
"""Share of tied known-unknown pairs; ranking metrics can change by half of it."""

ONE_VALUE = 0.05
"""Share of samples with the same score; no threshold can tell them apart."""

FEWEST = 10
"""Ties of fewer samples are ignored."""


def look(evidence: Evidence) -> Outcome:
    """Measure ties between known and unknown samples, and the largest tie."""
    if not evidence.scores:
        return not_applicable("no scores given")
    for name, scores in evidence.scores.items():
        values, counts = np.unique(scores.known, return_counts=True)
        largest = int(counts.argmax())
        in_ties = int(counts[counts > 1].sum())
        pairs = tied_pairs(scores)
        is_piled = counts[largest] > max(ONE_VALUE * len(scores), FEWEST)
        is_tied = pairs > PAIRS and in_ties >= FEWEST
        if is_piled or is_tied:
            return found(
                f"{name}: {counts[largest]} of {len(scores)} samples score exactly "
                f"{values[largest]:g}, and {pairs:.1%} of the known-unknown pairs are "
                f"tied ({values.size} distinct scores)",
                "Compute scores in float64, and use scores that do not saturate: "
                "logits or energy instead of probabilities, log-probabilities "
                "instead of probabilities",
            )
    n = len(evidence.scores)
    return passed(f"few ties in {n} set{'s' * (n != 1)} of scores")


def tied_pairs(scores: Scores) -> float:
    """Share of (known, unknown) pairs with equal scores; 0 if a side is empty.

    Examples
    --------
    >>> tied_pairs(Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[1, 2, 1]))
    0.5
    """
    if not scores.n_known or not scores.n_unknown:
        return 0.0
    unknown = np.sort(scores.known[scores.is_unknown])
    known = scores.known[~scores.is_unknown]
    upto = np.searchsorted(unknown, known, side="right")
    below = np.searchsorted(unknown, known, side="left")
    return int((upto - below).sum()) / (known.size * unknown.size)


CHECK = Check("OSR008", "Many tied scores", look, reads_scores=True)
