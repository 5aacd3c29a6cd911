"""OSR005: F-score or accuracy as headline."""

import pytest

from tests.unit.checks.makers import look


@pytest.mark.parametrize(
    "headline", ["f_score", "F1", "macro-F1", "f_score_micro", "accuracy", "Acc"]
)
def test_f_scores_and_accuracy_are_findings_under_any_name(headline):
    finding = look("OSR005", headline=headline)
    assert finding.is_finding
    assert repr(headline) in finding.message


@pytest.mark.parametrize("headline", ["openauc", "auroc", "overall_score", "osa"])
def test_other_headlines_pass(headline):
    assert look("OSR005", headline=headline).status == "passed"


def test_a_metric_of_others_is_not_applicable():
    assert look("OSR005", headline="our new score").status == "not applicable"


def test_no_headline_is_not_applicable():
    assert look("OSR005").status == "not applicable"
