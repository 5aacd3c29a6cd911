"""OSR011: hyper-parameters chosen by openness or by test unknowns."""

import pytest

from openset import checks
from tests.unit.checks.makers import look


@pytest.mark.parametrize("origin", ["openness", "test", "test unknowns"])
def test_what_nobody_knows_in_advance_is_a_finding(origin):
    finding = look("OSR011", tuned_on=["validation", origin])
    assert finding.is_finding
    assert origin.split()[-1] in finding.message


@pytest.mark.parametrize("origin", ["defaults", "n_known", "validation", "surrogate"])
def test_what_the_known_classes_tell_passes(origin):
    assert look("OSR011", tuned_on=origin).status == "passed"


def test_nothing_said_is_not_applicable():
    assert look("OSR011").status == "not applicable"


def test_other_words_are_refused_with_the_list():
    with pytest.raises(ValueError, match="tuned_on must be one of 'defaults'"):
        checks.run(tuned_on="intuition")
