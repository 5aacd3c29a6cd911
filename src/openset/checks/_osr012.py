"""OSR012: unknown samples look more known than known ones."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import row_of
from openset.metrics import evaluate

MARGIN = 0.05
"""A weak detector may be a little below 0.5; a wrong sign is far below."""

FEWEST = 5
"""Fewest samples per side for which complete separation is not chance."""


def look(evidence: Evidence) -> Outcome:
    """Look for an AUROC clearly below one half, in scores or else in results."""
    values: dict[str, float] = {}
    for name, scores in evidence.scores.items():
        if not (scores.n_known and scores.n_unknown):
            continue
        evaluation = evaluate(scores, metrics=["auroc"])
        interval = evaluation.intervals.get("auroc")
        if interval is None:  # complete separation, or next to no samples
            is_sure = min(scores.n_known, scores.n_unknown) >= FEWEST
        else:
            is_sure = interval.high < 0.5
        values[name] = evaluation["auroc"] if is_sure else 0.5
    if not values and evidence.results is not None:
        for row in evidence.results:
            metric = row_of(row.metric)
            if metric is not None and metric.key == "auroc":
                run = f"{row.detector or row.model or 'results'}, seed {row.seed}"
                values[run] = row.value
    if not values:
        return not_applicable(
            "no scores with known and unknown samples, and no AUROC in the results"
        )
    lowest = min(values, key=values.__getitem__)
    if values[lowest] < 0.5 - MARGIN:
        return found(
            f"{lowest}: AUROC {values[lowest]:.3f}, so unknown samples score higher",
            "Check the sign: higher must mean more known. Outlier scores, distances "
            "and energies of many papers have to be negated",
        )
    return passed(f"none of {len(values)} AUROC is clearly below 0.5")


CHECK = Check("OSR012", "Score direction suspicious", look, reads_scores=True)
