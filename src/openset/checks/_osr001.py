"""OSR001: all problems of a study have the same openness."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed


def look(evidence: Evidence) -> Outcome:
    """Count the different values of openness."""
    if not evidence.protocols:
        return not_applicable("no protocols given")
    # Nine digits: (4, 3) and (8, 6) have one openness, whatever the rounding.
    values = sorted({round(p.openness, 9) for p in evidence.protocols})
    if len(values) == 1:
        return found(
            f"all {len(evidence.protocols)} protocols have openness {values[0]:.3f}",
            "Add problems with other numbers of classes: protocols.grid(classes, "
            "openness=[0.1, 0.2, 0.3])",
        )
    return passed(f"{len(values)} values, {values[0]:.3f} to {values[-1]:.3f}")


CHECK = Check("OSR001", "One openness only", look, guidelines=(1,))
