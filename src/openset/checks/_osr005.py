"""OSR005: conclusions rest on an F-score or on accuracy."""

from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._names import row_of
from openset.checks._study import Study

# OSA weighs its two sides openly; OSR004 judges it by the ratio it is used at.
_AVOID = {
    "accuracy": "says nothing about unknown samples",
    "f_score": "treats known and unknown unequally and moves with their proportions",
    "normalized_accuracy": "is an accuracy that moves with the number of classes",
}


def look(study: Study) -> Outcome:
    """Look at the headline metric."""
    if not study.headline:
        return not_applicable("no headline metric named")
    row = row_of(study.headline)
    if row is None:
        return not_applicable(f"{study.headline!r} is not a metric of this package")
    if row.name in _AVOID:
        return found(
            f"the headline {study.headline!r} {_AVOID[row.name]}",
            "Lead with openauc, or with overall_score and outer_score at a threshold",
        )
    return passed(f"the headline is {study.headline!r}")


CHECK = Check("OSR005", "F-score or accuracy as headline", look, guidelines=(6,))
