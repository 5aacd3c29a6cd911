"""OSR007: surrogate classes among the test unknowns."""

from openset import protocols
from openset.protocols import Protocol
from tests.unit.checks.makers import look, scores


def test_classes_of_two_sources_that_share_names_are_a_finding():
    protocol = Protocol(
        known=["cat"],
        unknown=["fox", "owl"],
        unknown_source="zoo",
        surrogate=["fox"],
        surrogate_source="zoo, second release",
    )
    finding = look("OSR007", protocols=protocol)
    assert finding.is_finding
    assert "'fox'" in finding.message


def test_equal_numbers_of_two_sources_are_other_classes():
    protocol = Protocol(
        known=[0],
        unknown=[1],
        unknown_source="svhn",
        surrogate=[1],
        surrogate_source="mnist",
    )
    assert look("OSR007", protocols=protocol).status == "passed"


def test_operational_protocols_pass():
    finding = look("OSR007", protocols=protocols.operational(10, 5, 2, 3, repeats=3))
    assert finding.status == "passed"
    assert "3 cases" in finding.message


def test_groups_shared_by_calibration_and_test_unknowns_are_a_finding():
    test = scores(unknown_group="svhn")
    finding = look(
        "OSR007", scores=test, calibration=scores(seed=1, unknown_group="svhn")
    )
    assert finding.is_finding
    assert "'svhn'" in finding.message


def test_groups_of_known_samples_may_be_shared():
    test = scores(unknown_group="svhn")
    other = scores(seed=1, unknown_group="textures")
    assert look("OSR007", scores=test, calibration=other).status == "passed"


def test_without_surrogates_it_is_not_applicable():
    assert look("OSR007").status == "not applicable"
    holdout = protocols.holdout(10, 6, 4)
    assert look("OSR007", protocols=holdout).status == "not applicable"
    plain = {"scores": scores(), "calibration": scores(seed=1)}
    assert look("OSR007", **plain).status == "not applicable"
