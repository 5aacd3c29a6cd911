"""OSR001: one openness only."""

from openset import protocols
from openset.protocols import Protocol
from tests.unit.checks.makers import look


def test_five_draws_of_one_openness_are_a_finding():
    finding = look("OSR001", protocols=protocols.holdout(10, 6, 4, repeats=5))
    assert finding.is_finding
    assert "all 5 protocols have openness 0.134" in finding.message
    assert "grid" in finding.remedy


def test_pairs_of_other_sizes_but_equal_openness_are_a_finding():
    small = Protocol(known=range(4), unknown=range(4, 7))
    large = Protocol(known=range(8), unknown=range(8, 14))
    assert look("OSR001", protocols=[small, large]).is_finding


def test_a_grid_passes():
    grid = protocols.grid(10, openness=[0.1, 0.3], repeats=2)
    finding = look("OSR001", protocols=grid)
    assert finding.status == "passed"
    assert finding.message.startswith("2 values")


def test_no_protocols_is_not_applicable():
    assert look("OSR001").status == "not applicable"
