"""OSR003: closed-set or detection quality is reported, but not both in one."""

from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._study import Study

# CCR is the Halfpoint score with accuracy as its base.
_HALFPOINT = frozenset({"halfpoint_score", "ccr"})


def look(study: Study) -> Outcome:
    """Look which metrics go without the one that should stand beside them."""
    rows = study.metrics
    names = {row.name for row in rows}
    if not rows:
        return not_applicable("no metrics named; give results or a headline")
    if "inner_score" in names and not names & _HALFPOINT:
        return found(
            "the Inner score is reported without the Halfpoint score: rejecting known "
            "samples costs nothing",
            "Report halfpoint_score (or ccr) at a threshold chosen on other data",
        )
    joint = sorted({row.name for row in rows if row.counts_errors_of == "both"})
    apart = sorted(
        {row.name for row in rows if row.counts_errors_of == "detection"}
        | names & {"accuracy"}
    )
    if apart and not joint:
        return found(
            f"only {', '.join(apart)}: no metric in which both a wrong class and a "
            "wrong rejection count",
            "Add openauc, or halfpoint_score and overall_score at a threshold",
        )
    return passed(f"reported together: {', '.join(joint) or 'none'}")


CHECK = Check("OSR003", "Inner without Halfpoint", look, guidelines=(3, 4))
