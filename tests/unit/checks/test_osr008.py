"""OSR008: many tied scores."""

import numpy as np
import pytest

from openset.checks._osr008 import tied_pairs
from tests.unit.checks.makers import look, scores


def test_saturated_scores_are_a_finding():
    test = scores()
    finding = look("OSR008", scores=test.with_known(np.minimum(test.known, 1.0)))
    assert finding.is_finding
    assert "score exactly 1" in finding.message


def test_saturation_on_the_known_side_alone_is_a_finding():
    test = scores()
    known = np.where(test.is_unknown, test.known, np.maximum(test.known + 10, 11.5))
    assert tied_pairs(test.with_known(known)) == 0
    assert look("OSR008", scores=test.with_known(known)).is_finding


def test_coarse_scores_are_a_finding():
    test = scores()
    finding = look("OSR008", scores=test.with_known(test.known.round(1)))
    assert finding.is_finding


def test_continuous_scores_pass():
    assert look("OSR008", scores=scores()).status == "passed"


def test_a_tie_in_a_tiny_set_passes():
    few = scores(5, 5)
    assert (
        look("OSR008", scores=few.with_known([1, 1, *range(2, 10)])).status == "passed"
    )


def test_one_of_several_sets_is_named():
    flat = scores().with_known(np.zeros(400))
    finding = look("OSR008", scores={"msp": flat, "energy": scores()})
    assert finding.message.startswith("msp:")


@pytest.mark.parametrize("seed", range(5))
def test_tied_pairs_are_counted_pair_by_pair(seed):
    test = scores(30, 20, seed=seed)
    test = test.with_known(test.known.round(1))
    known, unknown = test.known[~test.is_unknown], test.known[test.is_unknown]
    pairs = [a == b for a in known for b in unknown]
    assert tied_pairs(test) == sum(pairs) / len(pairs)


def test_no_scores_is_not_applicable():
    assert look("OSR008").status == "not applicable"
