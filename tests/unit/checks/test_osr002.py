"""OSR002: one class draw per openness."""

from openset import protocols
from openset.protocols import Protocol
from tests.unit.checks.makers import look


def test_one_draw_at_one_of_two_openness_values_is_a_finding():
    many = protocols.holdout(10, 6, 4, repeats=3)
    finding = look("OSR002", protocols=[*many, protocols.holdout(10, 2, 8)])
    assert finding.is_finding
    assert finding.message == "one class draw at openness 0.423"


def test_the_same_draw_three_times_is_one_draw():
    assert look("OSR002", protocols=[protocols.holdout(10, 6, 4)] * 3).is_finding


def test_other_surrogate_classes_make_no_other_draw():
    parts = {"known": [0, 1], "unknown": [2]}
    two = [Protocol(**parts, surrogate=[s]) for s in (3, 4)]
    assert look("OSR002", protocols=two).is_finding


def test_the_same_classes_of_two_sources_are_two_draws():
    two = [
        Protocol(known=[0, 1], unknown=[2], source=source)
        for source in ("mnist", "svhn")
    ]
    assert look("OSR002", protocols=two).status == "passed"


def test_several_draws_everywhere_pass():
    grid = protocols.grid(10, openness=[0.1, 0.3], repeats=4)
    finding = look("OSR002", protocols=grid)
    assert finding.status == "passed"
    values = ", ".join(f"{v:.3f}" for v in sorted({p.openness for p in grid}))
    assert finding.message == f"at least 4 class draws at openness {values}"


def test_no_protocols_is_not_applicable():
    assert look("OSR002").status == "not applicable"
