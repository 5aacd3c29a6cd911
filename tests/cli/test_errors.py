"""What is refused, and what users read then: exit code 2 and one line."""

import numpy as np
import pytest

from openset import Outputs, Scores
from openset.cli import main

GUESTS = """
import json

import numpy as np

from openset.detectors import MSP


class BadFile(MSP):
    def fit_state(self, train):
        return {"limits": np.asarray(json.loads("{bad"))}


class BadSum(MSP):
    def score_batch(self, state, batch):
        return batch.logits[:, 0] + np.array(["1"])
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder of made data; return exit code, output and errors."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3 - (np.arange(90) % 4 == 0) * 3
    labels = np.maximum(labels, -1)
    logits = rng.normal(size=(90, 3)) + 3 * np.vstack([np.eye(3), np.zeros(3)])[labels]
    outputs = Outputs(logits=logits, features=logits, labels=labels)
    outputs.save(tmp_path / "test.npz")
    outputs.take(labels >= 0).save(tmp_path / "train.npz")
    for i, seed in enumerate("0123"):
        scores = Scores(labels=labels, predicted=logits.argmax(1), known=logits[:, 0])
        Scores(
            labels=labels,
            predicted=scores.predicted,
            known=scores.known + i * rng.normal(size=90),
        ).save(tmp_path / f"{'ab'[i % 2]}_seed{int(seed) // 2}.npz")
    (tmp_path / "guests.py").write_text(GUESTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def call(text):
        code = 0
        try:
            main(text.split())
        except SystemExit as end:
            code = end.code or 0
        found = capsys.readouterr()
        return code, found.out, found.err

    return call


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "score -d guests:BadFile --train train.npz test.npz",
            "Expecting property name enclosed in double quotes",
        ),
        ("score -d guests:BadSum --train train.npz test.npz", "ufunc 'add' did not"),
        ("evaluate a_seed0.npz b_seed0.npz --sketch --level 7", "--sketch is for"),
        ("compare {method}_seed{seed}.npz --bootstrap -5", "bootstrap"),
    ],
)
def test_one_line_and_exit_code_2(run, words, said):
    code, out, err = run(words)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err
    assert "required positional argument" not in err


def test_verbose_shows_where_an_error_comes_from(run):
    words = "score -d guests:BadFile --train train.npz test.npz"
    code, _, err = run(f"--verbose {words}")
    assert code == 2
    assert 'in fit_state\n    return {"limits": np.asarray(json.loads("{bad"))}' in err
