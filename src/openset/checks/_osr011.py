"""OSR011: hyper-parameters were chosen by what nobody knows at training time."""

from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._study import Study

_LEAKS = {
    "openness": "the openness, which is known of test sets only",
    "test": "the test data",
    "test unknowns": "the unknowns of the test set",
}


def look(study: Study) -> Outcome:
    """Look where hyper-parameters come from."""
    if not study.tuned_on:
        return not_applicable("not said what hyper-parameters were chosen by: tuned_on")
    leaks = [_LEAKS[origin] for origin in study.tuned_on if origin in _LEAKS]
    if leaks:
        return found(
            f"hyper-parameters were chosen by {' and '.join(leaks)}",
            "Choose them by the known classes (their number, training and validation "
            "samples) or by surrogate classes, once, before the test set is opened",
        )
    return passed(f"hyper-parameters come from: {', '.join(study.tuned_on)}")


CHECK = Check(
    "OSR011",
    "Hyper-parameters chosen by openness or by test unknowns",
    look,
    guidelines=(7,),
)
