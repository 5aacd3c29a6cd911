"""`openset check`."""

import json

import pytest
from typer.testing import CliRunner

from openset import checks, protocols
from openset.cli import app, main
from tests.checks.makers import scores

RUNNER = CliRunner()


@pytest.fixture
def study(tmp_path):
    (tmp_path / "scores").mkdir()
    scores(400, 100).save(tmp_path / "scores" / "msp.npz")
    protocols.grid(10, openness=[0.1, 0.3]).save(tmp_path / "protocols.json")
    (tmp_path / "study.json").write_text('{"headline": "f_score"}')
    return tmp_path


def test_the_table_has_every_check_with_status_and_remedy(study):
    result = RUNNER.invoke(app, ["check", str(study)])
    assert result.exit_code == 0
    for code in (finding.code for finding in checks.run()):
        assert code in result.output
    text = " ".join(result.output.split())
    assert "4 known samples per unknown one" in text
    assert "→ Lead with openauc" in text
    assert "docs/checks/OSR005.md" in text
    found = [finding.status for finding in checks.run_folder(study)]
    assert f"{found.count('passed')} passed, {found.count('finding')} finding" in text


def test_strict_exits_with_one_if_there_are_findings(study):
    assert RUNNER.invoke(app, ["check", str(study), "--strict"]).exit_code == 1


def test_strict_exits_with_zero_if_there_are_none(study):
    (study / "study.json").write_text('{"headline": "openauc"}')
    assert RUNNER.invoke(app, ["check", str(study), "--strict"]).exit_code == 0


def test_json_is_the_findings(study):
    result = RUNNER.invoke(app, ["check", str(study), "--json"])
    found = [finding.to_dict() for finding in checks.run_folder(study)]
    assert json.loads(result.output) == found


def test_a_damaged_study_is_one_line_and_exit_code_two(study, monkeypatch, capsys):
    (study / "study.json").write_text("{")
    monkeypatch.setattr("sys.argv", ["openset", "check", str(study)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "is not JSON" in " ".join(capsys.readouterr().err.split())


def test_help_explains_the_folder():
    text = RUNNER.invoke(app, ["check", "--help"]).output
    assert "openset check study/ --strict" in text
    assert "calibration/NAME.npz" in text
