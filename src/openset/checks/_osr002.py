"""OSR002: there is only one draw of classes at some openness."""

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed


def look(evidence: Evidence) -> Outcome:
    """Count the different class draws at each openness."""
    if not evidence.protocols:
        return not_applicable("no protocols given")
    draws: dict[float, set[object]] = {}
    for p in evidence.protocols:
        # Not p.problem: other surrogate classes do not make another draw.
        draw = (
            p.source,
            frozenset(p.known),
            p.source_of("unknown"),
            frozenset(p.unknown),
        )
        draws.setdefault(round(p.openness, 9), set()).add(draw)
    single = sorted(value for value, drawn in draws.items() if len(drawn) < 2)
    if single:
        shown = ", ".join(f"{value:.3f}" for value in single)
        return found(
            f"one class draw at openness {shown}",
            "Draw the classes several times (repeats=5) and report the spread; if the "
            "protocols use every class, use fewer, so that draws can differ",
        )
    fewest = min(map(len, draws.values()))
    values = ", ".join(f"{value:.3f}" for value in sorted(draws)[:5])
    more = f" and {len(draws) - 5} more" if len(draws) > 5 else ""
    return passed(f"at least {fewest} class draws at openness {values}{more}")


CHECK = Check("OSR002", "One class draw per openness", look, guidelines=(2,))
