"""OSR005: conclusions rest on an F-score or on accuracy."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import row_of

# Not OSA, whose weights are explicit; OSR004 looks at the ratio it is used at.
_AVOID = {
    "accuracy": "says nothing about unknown samples",
    "f_score": "treats known and unknown unequally and depends on their proportions",
    "normalized_accuracy": "depends on the number of classes",
}


def look(evidence: Evidence) -> Outcome:
    """Look at the headline metric."""
    if not evidence.headline:
        return not_applicable("no headline metric named")
    row = row_of(evidence.headline)
    if row is None:
        return not_applicable(f"{evidence.headline!r} is not a metric of this package")
    if row.name in _AVOID:
        return found(
            f"the headline {evidence.headline!r} {_AVOID[row.name]}",
            "Lead with openauc, or with overall_score and outer_score at a threshold",
        )
    return passed(f"the headline is {evidence.headline!r}")


CHECK = Check("OSR005", "F-score or accuracy as headline", look, guidelines=(6,))
