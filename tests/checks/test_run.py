"""All checks together: run, run_folder, the registry and its pages."""

import json
from pathlib import Path

import numpy as np
import pytest

from openset import checks

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
CODES = [f"OSR{i:03d}" for i in range(1, 13)]


def test_there_are_twelve_checks_in_the_order_of_their_codes():
    assert [finding.code for finding in checks.run()] == CODES


def test_an_empty_study_is_not_applicable_throughout():
    findings = checks.run()
    assert {finding.status for finding in findings} == {"not applicable"}
    assert all(finding.message and not finding.remedy for finding in findings)


@pytest.mark.parametrize("code", CODES)
def test_the_page_explains_each_check(code):
    (finding,) = [one for one in checks.run() if one.code == code]
    title = f"({code.lower()})=\n## {code}: {finding.title}\n"
    assert title in PAGE.read_text("utf-8")


def test_findings_have_a_remedy_a_link_and_a_plain_record():
    (finding,) = [f for f in checks.run(headline="f1") if f.code == "OSR005"]
    assert finding.is_finding
    assert finding.remedy
    record = json.loads(json.dumps(finding.to_dict()))
    assert record["status"] == "finding"
    assert record["link"] == "docs/checks.md#osr005"


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"scores": [1]}, "scores must be Scores, got list"),
        ({"calibration": {"a": 3}}, "scores must be Scores, got int"),
        ({"claim": "big"}, "difference must be a number"),
        ({"tuned_on": "luck"}, "tuned_on must be one of"),
        *(({"thresholds": one}, "threshold must be") for one in (np.nan, object())),
        ({"thresholds": {"value": 0.5, "fingerprint": {"n": 3}}}, "sides"),
    ],
)
def test_what_cannot_be_checked_is_refused(study, message):
    with pytest.raises((TypeError, ValueError, KeyError), match=message):
        checks.run(**study)
