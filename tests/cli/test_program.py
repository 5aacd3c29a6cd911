"""What holds for all commands: the list, --json, --verbose, Ctrl-C."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs, Rejector, Scores, _io, detectors, metrics, stats
from openset.cli import app
from openset.outputs import replaced


@pytest.fixture
def folder(tmp_path):
    """Make scores of two detectors, outputs and a rejector."""
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(200) % 3 == 0, -1, np.arange(200) % 3)
    logits = rng.normal(size=(200, 3)) + 4 * np.vstack([np.eye(3), np.zeros(3)])[labels]
    outputs = Outputs(logits=logits, labels=labels)
    outputs.save(tmp_path / "new.npz")
    Outputs(logits=1.1 * logits, labels=labels).save(tmp_path / "test.npz")
    known = labels >= 0
    outputs.take(np.flatnonzero(known)).save(tmp_path / "val.npz")
    outputs.take(np.flatnonzero(~known)).save(tmp_path / "far.npz")
    for name in ("msp", "energy"):
        fitted = detectors.make(name).fit(None)
        fitted.score(outputs).save(tmp_path / f"{name}.npz")
    Rejector.calibrate(fitted, known=outputs).save(tmp_path / "rejector")
    return tmp_path


def invoke(*words):
    return CliRunner().invoke(app, [*map(str, words)], prog_name="openset")


def commands(folder):
    scores = folder / "msp.npz", folder / "energy.npz"
    calibrate = ("--known", folder / "val.npz", "--surrogate", folder / "far.npz")
    return {
        "evaluate": ("evaluate", scores[0]),
        "compare": ("compare", *scores),
        "calibrate": ("calibrate", *calibrate, "-d", "msp", "--out", folder / "made"),
        "predict": ("predict", folder / "rejector", folder / "new.npz"),
        "detectors": ("detectors",),
        "datasets": ("datasets",),
        "protocols": ("protocols", "list"),
        "check": ("check", folder),
        "doctor": ("doctor",),
        "watch": ("watch", folder / "rejector", folder / "new.npz"),
    }


NAMES = [*commands(Path())]


@pytest.mark.parametrize("name", NAMES)
def test_json_is_all_that_is_printed(name, folder):
    found = invoke(*commands(folder)[name], "--json")
    assert found.exit_code in {0, 1}, found.output  # 1: watch, of an alarm
    assert json.loads(found.stdout)


def test_json_of_a_comparison_has_the_numbers_of_the_library(folder):
    paths = folder / "msp.npz", folder / "energy.npz"
    found = json.loads(invoke("compare", *paths, "--json").stdout)
    a, b = (Scores.load(path) for path in paths)
    (test,) = found["tests"]
    expected = stats.compare(a, b)
    assert test["difference"] == expected.difference
    assert test["p_corrected"] == expected.p_value  # a single test
    value = found["evaluations"]["msp"]["metrics"]["auroc"]["value"]
    assert value == metrics.evaluate(a)["auroc"]


def test_json_of_decisions_is_what_the_rejector_decides(folder):
    words = "predict", folder / "rejector", folder / "new.npz", "--json"
    found = json.loads(invoke(*words).stdout)
    rejector, new = Rejector.load(folder / "rejector"), Outputs.load(folder / "new.npz")
    decided = rejector.decide(new)
    labels = [row["decision"] for row in found["decisions"]]
    assert labels == decided.labels.tolist()
    assert found["n_rejected"] == decided.n_rejected


def test_json_of_a_calibration_is_that_of_the_saved_rejector(folder):
    words = *commands(folder)["calibrate"], "--test", folder / "test.npz", "--json"
    result = invoke(*words)
    assert result.exit_code == 0, result.exception
    found = json.loads(result.stdout)
    saved = Rejector.load(folder / "made")
    assert found["threshold"]["value"] == saved.threshold.value
    assert found["report"] == json.loads(json.dumps(saved.report.to_dict()))
    assert 0 < found["test"]["oosa"] <= 1


def test_the_list_of_commands_imports_nothing_heavy():
    code = """
import sys
from typer.testing import CliRunner
from openset.cli import app
assert "calibrate" in CliRunner().invoke(app, ["--help"]).output
heavy = ("scipy", "openset.metrics", "openset.train")
print(*[name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(  # noqa: S603  # our own interpreter and program
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_ctrl_c_leaves_the_old_file(folder, monkeypatch):
    """Interrupt while the file is being written: the old one stays, none is added."""
    out = folder / "table.json"
    out.write_text("old", encoding="utf-8")
    before = sorted(folder.iterdir())

    def stopped(path, writer):
        def interrupted(stream):
            stream.write(b"half")
            raise KeyboardInterrupt

        write(path, interrupted)

    write = _io.write
    monkeypatch.setattr(_io, "write", stopped)
    result = invoke("evaluate", folder / "msp.npz", "--json", "--out", out)
    assert result.exit_code == 130
    assert out.read_text(encoding="utf-8") == "old"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("predict", "rejector", "new.npz"), "new.npz"),
        (("evaluate", "msp.npz", "--json"), "msp.npz"),
        (("score", "-d", "msp", "new.npz"), "new.npz"),
        (("score", "-d", "knn", "new.npz", "--train", "val.npz"), "val.npz"),
    ],
)
def test_results_do_not_replace_what_they_are_made_from(
    words, out, folder, monkeypatch
):
    monkeypatch.chdir(folder)
    before = Path(out).read_bytes()
    place = Path("rejector") / ".." / out  # the same file by another name
    with pytest.raises(ValueError, match="--out must be another file than those it is"):
        CliRunner().invoke(app, [*words, "--out", str(place)], catch_exceptions=False)
    assert Path(out).read_bytes() == before


def test_letters_that_the_terminal_does_not_have_are_no_error(folder):
    outputs = Outputs.load(folder / "new.npz")
    named = replaced(outputs, classes=("ant", "bær", "cat ☃"))
    fitted = detectors.MaxLogit().fit()
    Rejector.calibrate(fitted, known=named).save(folder / "named")
    done = subprocess.run(  # our own interpreter and program
        [sys.executable, "-m", "openset", "predict", "named", "new.npz"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert r"b\xe6r" in done.stdout


LOADER = """
import logging
from openset import datasets

def blobs(root):
    logging.getLogger("openset.blobs").info("reading %d blobs", 20)
    return datasets.from_arrays([[0.0]] * 20, [*range(10)] * 2)
"""


def test_verbose_logs_to_standard_error(tmp_path):
    (tmp_path / "blobs_with_log.py").write_text(LOADER, encoding="utf-8")
    words = "holdout", "blobs_with_log:blobs", "--known", "6", "--unknown", "4"
    command = [sys.executable, "-m", "openset", "--verbose", "protocols", *words]
    done = subprocess.run(  # noqa: S603  # our own interpreter and program
        command, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "openset.blobs: reading 20 blobs" in done.stderr
