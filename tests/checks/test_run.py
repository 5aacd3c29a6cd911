"""All checks together: run, run_folder, the registry and its pages."""

import json
from pathlib import Path

import numpy as np
import pytest

from openset import checks
from openset.checks.finding import CHECKS  # titles and guidelines, for the pages

DOCS = Path(__file__).parents[2] / "docs" / "checks"
CODES = [f"OSR{i:03d}" for i in range(1, 13)]


def test_there_are_twelve_checks_in_the_order_of_their_codes():
    assert sorted(CHECKS) == CODES
    assert [finding.code for finding in checks.run()] == CODES


def test_an_empty_study_is_not_applicable_throughout():
    findings = checks.run()
    assert {finding.status for finding in findings} == {"not applicable"}
    assert all(finding.message and not finding.remedy for finding in findings)


@pytest.mark.parametrize("code", CODES)
def test_each_check_has_a_page_with_its_title(code):
    check = CHECKS[code]
    page = (DOCS / f"{code}.md").read_text("utf-8")
    assert page.startswith(f"# {code}: {check.title}\n")
    for heading in ("## What it checks", "## Why", "## What to do"):
        assert heading in page


def test_the_seven_guidelines_are_covered_and_the_index_says_by_which():
    covered = {n for check in CHECKS.values() for n in check.guidelines}
    assert covered == set(range(1, 8))
    rows = [
        line.split("|")
        for line in (DOCS / "index.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    said = {int(row[1]): row[3] for row in rows}
    assert sorted(said) == list(range(1, 8))
    for code, check in CHECKS.items():
        assert all(code in said[n] for n in check.guidelines)


def test_findings_have_a_remedy_a_link_and_a_plain_record():
    (finding,) = [f for f in checks.run(headline="f1") if f.code == "OSR005"]
    assert finding.is_finding
    assert finding.remedy
    record = json.loads(json.dumps(finding.to_dict()))
    assert record["status"] == "finding"
    assert record["link"] == "docs/checks/OSR005.md"


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"scores": [1]}, "scores must be Scores, got list"),
        ({"calibration": {"a": 3}}, "scores must be Scores, got int"),
        ({"results": [3]}, "rows must be Result objects, got int"),
        ({"claim": "big"}, "difference must be a number"),
        ({"tuned_on": "luck"}, "tuned_on must be one of"),
        *(({"thresholds": one}, "threshold must be") for one in (np.nan, object())),
        ({"thresholds": {"value": 0.5, "fingerprint": {"n": 3}}}, "sides"),
    ],
)
def test_what_cannot_be_checked_is_refused(study, message):
    with pytest.raises((TypeError, ValueError, KeyError), match=message):
        checks.run(**study)
