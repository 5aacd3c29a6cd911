"""Tables in narrow and wide terminals: everything can be read."""

import json
import re

import pytest
from typer.testing import CliRunner

from openset import checks
from openset.cli import app
from openset.cli._console import OUT
from tests.checks.makers import scores

LONG = "a-very-long-name-without-any-place-to-break-it-" * 3


@pytest.fixture(params=[80, 120])
def show(request, monkeypatch):
    """Run a command in a terminal of this width; return what it prints."""
    monkeypatch.setattr(OUT, "_width", request.param)

    def run(*words):
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.output
        assert max(map(len, result.output.splitlines())) <= request.param
        # Our own marks: "… (991)" counts what a list leaves out, "68910f7c…" is a hash.
        rest = re.sub(r"…\s+\(\d+\)|\b[0-9a-f]{8}…", "", result.output)
        assert "…" not in rest, "something was cut to fit"
        return result.output

    return run


def joined(text):
    return "".join(text.split())


def test_findings_are_printed_to_the_last_word(show, tmp_path):
    for seed in range(2):
        name = f"{seed}-{LONG}"
        scores(400, 100, seed=0).save(tmp_path / "scores" / f"{name}.npz")
    said = {"headline": "f_score", "tuned_on": "test"}
    (tmp_path / "study.json").write_text(json.dumps(said))
    text = joined(show("check", tmp_path))
    for finding in checks.run_folder(tmp_path):
        assert finding.code in text
        assert joined(finding.message) in text
        assert joined(finding.remedy) in text
        assert not finding.is_finding or finding.link in text
