"""OSR011: hyper-parameters were chosen on what is unknown at training time."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed

_LEAKS = {
    "openness": "the openness, which is only known from the test set",
    "test": "the test data",
    "test unknowns": "the unknowns of the test set",
}


def look(evidence: Evidence) -> Outcome:
    """Look at what hyper-parameters were chosen on."""
    if not evidence.tuned_on:
        return not_applicable(
            "it is not known what hyper-parameters were chosen on; give tuned_on"
        )
    leaks = [_LEAKS[origin] for origin in evidence.tuned_on if origin in _LEAKS]
    if leaks:
        return found(
            f"hyper-parameters were chosen on {' and '.join(leaks)}",
            "Choose them on the known classes (their number, training and validation "
            "samples) or on surrogate classes, before the test set is used",
        )
    return passed(f"hyper-parameters were chosen on: {', '.join(evidence.tuned_on)}")


CHECK = Check(
    "OSR011",
    "Hyper-parameters chosen by openness or by test unknowns",
    look,
    guidelines=(7,),
)
