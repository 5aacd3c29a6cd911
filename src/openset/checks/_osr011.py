"""OSR011: hyper-parameters were chosen by what nobody knows at training time."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed

_LEAKS = {
    "openness": "the openness, which is known of test sets only",
    "test": "the test data",
    "test unknowns": "the unknowns of the test set",
}


def look(evidence: Evidence) -> Outcome:
    """Look where hyper-parameters come from."""
    if not evidence.tuned_on:
        return not_applicable("not said what hyper-parameters were chosen by: tuned_on")
    leaks = [_LEAKS[origin] for origin in evidence.tuned_on if origin in _LEAKS]
    if leaks:
        return found(
            f"hyper-parameters were chosen by {' and '.join(leaks)}",
            "Choose them by the known classes (their number, training and validation "
            "samples) or by surrogate classes, once, before the test set is opened",
        )
    return passed(f"hyper-parameters come from: {', '.join(evidence.tuned_on)}")


CHECK = Check(
    "OSR011",
    "Hyper-parameters chosen by openness or by test unknowns",
    look,
    guidelines=(7,),
)
