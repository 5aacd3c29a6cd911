"""All checks together: run, run_folder, the registry and its pages."""

import json
from pathlib import Path

import numpy as np
import pytest

from openset import checks

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
CODES = [f"OSR{i:03d}" for i in range(1, 13)]


def test_an_empty_study_is_not_applicable_to_the_twelve_checks():
    findings = checks.run()
    assert [finding.code for finding in findings] == CODES
    assert {finding.status for finding in findings} == {"not applicable"}
    assert all(finding.message and not finding.remedy for finding in findings)


def test_the_page_explains_each_check():
    text = PAGE.read_text("utf-8")
    for one in checks.run():
        assert f"({one.code.lower()})=\n## {one.code}: {one.title}\n" in text


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
        *(({"claim": one}, "difference must be a n") for one in ("big", 0, -1, np.nan)),
        ({"tuned_on": "luck"}, "tuned_on must be one of"),
        *(({"thresholds": one}, "threshold must be") for one in (np.nan, object())),
        ({"thresholds": {"value": 0.5, "fingerprint": {"n": 3}}}, "sides"),
    ],
)
def test_what_cannot_be_checked_is_refused(study, message):
    with pytest.raises((TypeError, ValueError, KeyError), match=message):
        checks.run(**study)
