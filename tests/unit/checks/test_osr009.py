"""OSR009: duplicate splits or samples across parts."""

from dataclasses import replace

from openset import datasets, protocols
from tests.unit.checks.makers import look, scores


def test_repeated_protocols_are_a_finding():
    splits = [protocols.published("svhn", i) for i in range(5)]
    finding = look("OSR009", protocols=splits)
    assert finding.is_finding
    assert "1 of 5 protocols repeat another (svhn/0 = svhn/1)" in finding.message


def test_samples_in_two_parts_are_a_finding():
    parts = {"train": ["a", "b"], "validation": ["c"], "test": ["d", "b"]}
    finding = look("OSR009", parts=parts)
    assert finding.is_finding
    assert finding.message == "1 samples are in train and in test, b first"


def test_a_cut_passes():
    digits = datasets.load("digits")
    protocol = protocols.operational(digits, 5, 2, 3, n_tests=3)
    finding = look("OSR009", parts=datasets.cut(digits, protocol))
    assert finding.status == "passed"


def test_test_splits_may_share_unknowns_by_design():
    digits = datasets.load("digits")
    protocol = protocols.operational(digits, 5, 2, 3, n_tests=3, unknowns="shared")
    assert look("OSR009", parts=datasets.cut(digits, protocol)).status == "passed"


def test_a_cut_that_trains_on_test_samples_is_a_finding():
    digits = datasets.load("digits")
    cut = datasets.cut(digits, protocols.holdout(digits, 6, 4))
    leaky = replace(cut, train=cut.test)
    finding = look("OSR009", parts=leaky)
    assert finding.is_finding
    assert "in train and in test" in finding.message


def test_the_same_scores_under_two_names_are_a_finding():
    finding = look("OSR009", scores={"seed0": scores(), "seed1": scores()})
    assert finding.is_finding
    assert "'seed0' and 'seed1'" in finding.message
    assert "a model that does not depend on its seed" in finding.remedy


def test_other_scores_pass():
    two = {"seed0": scores(), "seed1": scores(seed=1)}
    assert look("OSR009", scores=two).status == "passed"


def test_a_single_thing_is_not_applicable():
    assert look("OSR009").status == "not applicable"
    assert look("OSR009", scores=scores()).status == "not applicable"
