"""OSR004: known/unknown imbalance with a prevalence-dependent metric."""

import pytest

from tests.unit.checks.makers import look, scores


@pytest.mark.parametrize(("n_known", "n_unknown"), [(400, 100), (100, 400), (200, 100)])
def test_a_lopsided_set_with_an_f_score_is_a_finding(n_known, n_unknown):
    finding = look("OSR004", scores=scores(n_known, n_unknown), headline="f_score")
    assert finding.is_finding
    assert f"{n_known / n_unknown:g} known samples per unknown" in finding.message
    assert "f_score" in finding.message


def test_a_lopsided_set_with_auroc_passes_and_states_the_ratio():
    finding = look("OSR004", scores=scores(400, 100), headline="auroc")
    assert finding.status == "passed"
    assert "4 known samples per unknown" in finding.message


def test_a_nearly_balanced_set_passes_with_any_metric():
    finding = look("OSR004", scores=scores(150, 100), headline="f_score")
    assert finding.status == "passed"
    assert "1.5 known" in finding.message


def test_one_lopsided_set_of_two_is_enough():
    two = {"even": scores(), "odd": scores(30, 300)}
    finding = look("OSR004", scores=two, headline="f_score")
    assert finding.is_finding
    assert "0.1 to 1 known" in finding.message


def test_open_set_accuracy_has_a_fixed_weight():
    finding = look("OSR004", scores=scores(30, 300), headline="osa")
    assert finding.status == "passed"


def test_without_metrics_it_is_not_applicable_but_states_the_ratio():
    finding = look("OSR004", scores=scores(400, 100))
    assert finding.status == "not applicable"
    assert "4 known samples" in finding.message


def test_without_both_sides_it_is_not_applicable():
    assert look("OSR004").status == "not applicable"
    only = scores().take(slice(0, 100))
    assert look("OSR004", scores=only).status == "not applicable"
