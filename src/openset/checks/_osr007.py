"""OSR007: the threshold was chosen on unknown classes of the test set."""

from collections.abc import Iterable

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.scores import Scores

_REMEDY = (
    "Take surrogate classes that occur nowhere in the test set: "
    "protocols.operational draws them disjoint"
)


def look(evidence: Evidence) -> Outcome:
    """Compare surrogate and unknown classes, by protocol and by groups of scores."""
    told = 0
    for i, protocol in enumerate(evidence.protocols):
        if not protocol.surrogate:
            continue
        told += 1
        # A Protocol refuses this within one source. Two sources may still share
        # classes, which their names show (their numbers do not).
        names = {c for c in protocol.surrogate if isinstance(c, str)}
        both = names & {c for c in protocol.unknown if isinstance(c, str)}
        if both:
            return found(
                f"protocol {protocol.name or i}: surrogate and unknown both have "
                f"{_few(both)} (from {protocol.source_of('surrogate')!r} and "
                f"{protocol.source_of('unknown')!r})",
                _REMEDY,
            )
    for name, scores in evidence.scores.items():
        calibration = evidence.calibration_of(name)
        surrogate, unknown = _unknown_groups(calibration), _unknown_groups(scores)
        if not surrogate or not unknown:
            continue
        told += 1
        if surrogate & unknown:
            return found(
                f"{name}: unknown samples of {_few(surrogate & unknown)} are in the "
                "calibration and in the test set",
                _REMEDY,
            )
    if not told:
        return not_applicable(
            "no surrogate classes given; give protocols that have some, or calibration "
            "and test scores with groups"
        )
    return passed(f"surrogate and test unknowns are disjoint in all {told} cases")


def _unknown_groups(scores: Scores | None) -> set[str]:
    if scores is None or scores.groups is None:
        return set()
    return set(map(str, scores.groups[scores.is_unknown].tolist()))


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(map(repr, listed[:3])) + more


CHECK = Check(
    "OSR007", "Surrogate classes among the test unknowns", look, reads_scores=True
)
