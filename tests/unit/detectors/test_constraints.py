"""Rules for the parameters of detectors, and the values they refuse."""

from math import inf, nan

import pytest

from openset.detectors.constraints import (
    POSITIVE,
    Boolean,
    CountOrShare,
    Integer,
    Number,
    OneOf,
    Optional,
    Text,
)

# What a rule must refuse, as the contract of every detector tries it.
BAD = [
    (Number(), (-inf, inf, nan, "1", True, None)),
    (Number(low=0, high=2), (-1.0, 3.0, nan, "1", True, None)),
    (Number(low=0, high=2, open_low=True), (0, 3.0, nan, "1", True, None)),
    (Number(low=0, high=2, open_high=True), (-1.0, 2, nan, "1", True, None)),
    (POSITIVE, (0, inf, nan, "1", True, None)),
    (Integer(low=2), (1, 2.5, "1", True, None)),
    (CountOrShare(), (0, 0.0, 1.5, "1", True)),
    (OneOf(("l1", "l2")), ("nothing of the kind", 1, None)),
    (Boolean(), ("no", 0, None)),
    (Text(), (1, None)),
    (Optional(Integer(low=2)), (1, 2.5, "1", True)),
]
GOOD = [
    (Number(), (-1e300, 0, 0.5, 1e300)),
    (Number(low=0, high=2), (0, 1.5, 2)),
    (Number(low=0, high=2, open_low=True), (5e-324, 2)),
    (POSITIVE, (5e-324, 1e300)),
    (Integer(low=2), (2, 10**9)),
    (CountOrShare(), (1, 5e-324, 1.0, 7)),
    (OneOf(("l1", "l2")), ("l1", "l2")),
    (Boolean(), (True, False)),
    (Text(), ("", "Flat")),
    (Optional(Integer(low=2)), (None, 2)),
]


@pytest.mark.parametrize(("rule", "bad"), BAD)
def test_a_rule_refuses_what_it_says_it_refuses(rule, bad):
    assert repr(rule.bad()) == repr(bad)  # repr: NaN differs from itself
    for value in bad:
        with pytest.raises((TypeError, ValueError), match="Some: it must be"):
            rule.check("Some", "it", value)


@pytest.mark.parametrize(("rule", "good"), GOOD)
def test_a_rule_allows_its_limits(rule, good):
    for value in good:
        rule.check("Some", "it", value)
