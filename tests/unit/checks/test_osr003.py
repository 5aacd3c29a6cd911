"""OSR003: Inner without Halfpoint."""

import pytest

from tests.unit.checks.makers import look, reported


def test_inner_alone_is_a_finding():
    finding = look("OSR003", results=reported("inner_score", "outer_score"))
    assert finding.is_finding
    assert "Halfpoint" in finding.message


@pytest.mark.parametrize("partner", ["halfpoint_score", "ccr", "halfpoint_score_best"])
def test_inner_beside_halfpoint_passes(partner):
    finding = look("OSR003", results=reported("inner_score", partner))
    assert finding.status == "passed"


def test_overall_does_not_replace_halfpoint_beside_inner():
    assert look("OSR003", results=reported("inner_score", "overall_score")).is_finding


@pytest.mark.parametrize("metric", ["auroc", "outer_score", "accuracy", "FPR95"])
def test_one_task_alone_is_a_finding(metric):
    finding = look("OSR003", headline=metric)
    assert finding.is_finding
    assert "wrong rejection" in finding.message


def test_accuracy_times_auroc_does_not_join_the_tasks():
    metrics = reported("accuracy", "auroc", "acc_times_auroc")
    assert look("OSR003", results=metrics).is_finding


@pytest.mark.parametrize(
    "joint", ["openauc", "overall_score", "OSCR", "ccr_at_fpr_0.1"]
)
def test_a_joint_metric_beside_them_passes(joint):
    finding = look("OSR003", results=reported("accuracy", "auroc", joint))
    assert finding.status == "passed"


def test_no_metric_of_ours_is_not_applicable():
    assert look("OSR003").status == "not applicable"
    assert look("OSR003", headline="our new score").status == "not applicable"
