"""`openset check`, `openset detectors` and `openset report`."""

import json

import pytest

from openset import checks, detectors
from tests.checks.makers import scores


@pytest.fixture
def study(tmp_path):
    for seed in range(2):
        scores(400, 100, seed=0).save(tmp_path / "scores" / f"{seed}.npz")
    said = {"headline": "f_score", "tuned_on": "test"}
    (tmp_path / "study.json").write_text(json.dumps(said))
    return tmp_path


def test_findings_with_remedies_and_an_exit_code(run, run_json, study):
    text = "".join(run("check", study).split())
    findings = checks.run_folder(study)
    for one in findings:
        assert one.code in text
        if one.is_finding:
            assert "".join(one.remedy.split()) in text
    assert run_json("check", study, "--all") == [one.to_dict() for one in findings]
    run("check", study, "--strict", code=1)


def test_detectors_are_listed_with_their_facts(run, run_json):
    text, found = run("detectors"), run_json("detectors")
    assert [one["name"] for one in found] == detectors.names()
    assert all(one["name"] in text and one["paper"] for one in found)
