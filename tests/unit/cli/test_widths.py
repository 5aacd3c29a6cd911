"""Tables in narrow and wide terminals: everything can be read."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs, checks
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


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_tables_of_a_calibration_keep_names_and_numbers(width, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    known = 4 * np.eye(3)[labels] + rng.normal(size=(120, 3))
    groups = np.array([LONG, "[near]"])[np.arange(60) % 2]
    unknown = Outputs(logits=rng.normal(size=(60, 3)), groups=groups).as_unknown()
    known = Outputs(logits=known, labels=labels, groups=labels)
    words = ["calibrate", "-d", "msp", "-d", "energy", "--accept-risk"]
    for name, outputs in {
        "known": known.take(slice(60)),
        "surrogate": unknown.take(slice(30)),
        "test": Outputs.concat(
            [known.take(slice(60, 120)), unknown.take(slice(30, 60))]
        ),
    }.items():
        words += [f"--{name}", str(outputs.save(tmp_path / f"{name}.npz"))]
    monkeypatch.setattr(OUT, "_width", width)
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "rejector")])
    assert result.exit_code == 0, result.output
    rows = [line for line in result.output.splitlines() if line.startswith(" ")]
    text = "\n".join(rows)
    assert max(map(len, rows)) <= width
    assert "…" not in text, "something was cut to fit"
    written = json.loads((tmp_path / "rejector" / "manifest.json").read_text())
    for group in written["report"]["groups"]:
        for number in ("urr", "osa", "best", "loss"):
            assert f" {group[number]:.4f} " in text
    for name in ("energy", "[near]", "together", "oracle"):
        assert name in text
    first = re.findall(r"^ (\S+)", text, flags=re.MULTILINE)
    assert LONG in "".join(first), "the name is there, in several lines"
