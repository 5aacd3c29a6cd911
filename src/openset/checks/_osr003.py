"""OSR003: no reported metric combines classification and rejection."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import counts_errors_of

# CCR is the Halfpoint score with accuracy as its base.
_HALFPOINT = frozenset({"halfpoint_score", "ccr"})


def look(evidence: Evidence) -> Outcome:
    """Look for metrics that are reported without the one that completes them."""
    rows = evidence.metrics
    names = {row.name for row in rows}
    if not rows:
        return not_applicable("no metrics named; give results or a headline")
    if "inner_score" in names and not names & _HALFPOINT:
        return found(
            "the Inner score is reported without the Halfpoint score: rejecting known "
            "samples costs nothing",
            "Report halfpoint_score (or ccr) at a threshold chosen on other data",
        )
    joint = sorted({row.name for row in rows if counts_errors_of(row) == "both"})
    apart = sorted(
        {row.name for row in rows if counts_errors_of(row) == "detection"}
        | names & {"accuracy"}
    )
    if apart and not joint:
        return found(
            f"only {', '.join(apart)}: no metric counts both wrong classes and wrong "
            "rejections",
            "Add openauc, or halfpoint_score and overall_score at a threshold",
        )
    return passed(f"reported together: {', '.join(joint) or 'none'}")


CHECK = Check("OSR003", "Inner without Halfpoint", look, guidelines=(3, 4))
