"""OSR012: score direction suspicious."""

from openset.results import Result, Results
from tests.unit.checks.makers import look, scores


def test_negated_scores_are_a_finding():
    test = scores()
    finding = look("OSR012", scores=test.with_known(-test.known))
    assert finding.is_finding
    assert "negated" in finding.remedy


def test_complete_separation_the_wrong_way_is_a_finding():
    finding = look("OSR012", scores=scores(gap=-100))
    assert finding.is_finding
    assert "AUROC 0.000" in finding.message


def test_a_useless_detector_passes():
    assert look("OSR012", scores=scores(gap=0)).status == "passed"


def test_a_low_auroc_of_few_samples_passes():
    assert look("OSR012", scores=scores(6, 6, gap=-0.3)).status == "passed"
    assert look("OSR012", scores=scores(1, 2, gap=-100)).status == "passed"


def test_results_serve_where_there_are_no_scores():
    rows = [Result(detector="msp", seed=3, metric="auroc", value=0.2)]
    finding = look("OSR012", results=Results(rows))
    assert finding.is_finding
    assert finding.message.startswith("msp, seed 3")


def test_without_scores_and_auroc_it_is_not_applicable():
    assert look("OSR012").status == "not applicable"
    assert look("OSR012", scores=scores().take([0, 1])).status == "not applicable"
