"""OSR004: imbalanced test sets, and a metric that depends on the balance."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import MOVES_WITH_PREVALENCE
from openset.metrics import imbalance_ratio

LIMIT = 2.0
"""At this ratio, always guessing the larger side is right two times out of three."""


def look(evidence: Evidence) -> Outcome:
    """Compare the number of known and unknown samples of each test set."""
    ratios = {
        name: imbalance_ratio(scores)
        for name, scores in evidence.scores.items()
        if scores.n_known and scores.n_unknown
    }
    if not ratios:
        return not_applicable("no scores with both known and unknown samples given")
    low, high = min(ratios.values()), max(ratios.values())
    span = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    seen = f"{span} known samples per unknown one"
    if low > 1 / LIMIT and high < LIMIT:
        return passed(seen)
    if not evidence.reported:
        return not_applicable(f"{seen}; no metrics named: give results or a headline")
    touched = sorted(
        {row.name for row in evidence.metrics if row.key in MOVES_WITH_PREVALENCE}
    )
    if not touched:
        return passed(f"{seen}, but no reported metric depends on it")
    return found(
        f"{seen}, and {', '.join(touched)} would differ at another ratio",
        "Report auroc, openauc, outer_score or overall_score, which do not depend on "
        "it; or state the ratio beside the number and compare at equal ratios only",
    )


CHECK = Check(
    "OSR004",
    "Known/unknown imbalance with a prevalence-dependent metric",
    look,
    guidelines=(5, 6),
    reads_scores=True,
)
