"""What is refused, and what users read then: exit code 2, one line, no traceback."""

import shutil
import warnings

import numpy as np
import pytest

from openset import Outputs, Scores, protocols
from openset.cli import main

GUESTS = """
import json

import numpy as np

from openset.detectors import MSP


class BadFile(MSP):
    def fit_state(self, train):
        return {"limits": np.asarray(json.loads("{bad"))}
"""
STUDY = """
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: logistic}]
detectors: [msp]
"""


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    """Write a file for everything that can be wrong with one, beside good ones."""
    folder = shutil.copytree(files, tmp_path_factory.mktemp("mistakes") / "here")
    scores = Scores.load(folder / "test/scores-msp.npz")
    scores.save(folder / "scores.npz")
    scores.take(~scores.is_unknown).save(folder / "knowns.npz")
    protocols.holdout(10, 6, 4).save(folder / "draws.json")
    (folder / "folder").mkdir()
    texts = {"empty.npz": "", "text.npz": "hello", "notes.txt": "x", "same.onnx": ""}
    texts |= {"other.csv": "a,b", "guests.py": GUESTS, "study.yaml": STUDY}
    texts |= {"short.csv": "labels,known\n0,1.0\n-1,0.5\n"}
    texts |= {"nan.csv": "labels,predicted,known\n0,0,nan\n-1,0,0.5\n"}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    np.save(folder / "bare.npy", np.eye(3))
    np.savez(folder / "unlabelled.npz", logits=np.eye(3))
    np.savez(folder / "wide.npz", logits=np.eye(5), labels=np.arange(5))
    np.savez(folder / "no-number.npz", logits=[[np.nan, 0.0, 0.0]], labels=[0])
    content = bytearray((folder / "train.npz").read_bytes())
    content[200] ^= 255
    (folder / "flipped.npz").write_bytes(content)
    return folder


@pytest.fixture
def fails(fails, folder, monkeypatch):
    """Return a function that runs a command there, which must end with one error."""
    monkeypatch.chdir(folder)
    return lambda words, **how: fails(*words.split(), **how)


BOTH = ("missing.npz", "folder", "bare.npy", "empty.npz", "text.npz", "flipped.npz")
OUTPUTS = (*BOTH, "no-number.npz", "wide.npz", "other.csv", "scores.npz")
SCORES = (*BOTH, "short.csv", "nan.csv", "test.npz", "knowns.npz")
READERS = {
    "predict rejector": OUTPUTS,
    "watch rejector": (*OUTPUTS[:-1], "notes.txt"),
    "score -d knn --train train.npz": OUTPUTS,
    "score -d knn test.npz --train": OUTPUTS,
    "score -d msp": ("unlabelled.npz",),
    "calibrate --known val.npz --out new --surrogate": ("other.csv", "text.npz"),
    "evaluate --groups": SCORES,
    "compare scores.npz": SCORES,
    "report": ("missing.npz", "text.npz", "short.csv"),
}


@pytest.mark.parametrize(
    ("words", "name"), [(words, name) for words in READERS for name in READERS[words]]
)
def test_the_file_is_named_and_nothing_is_printed_before(fails, words, name):
    said = fails(f"{words} {name}")
    assert said.startswith("error: ")
    assert name in said


MISTAKES = {
    "evaluate scores.npz --alpha 0.9": "--alpha needs --calibration",
    "compare scores.npz test/scores-knn.npz --alpha 0.9": "--alpha needs --calibration",
    "serve rejector --pixels side=8": "need --model",
    "bench openood:cifar10 --dry-run": "are for a study",
    "evaluate scores.npz scores.npz --sketch --level 7": "--sketch is for",
    "evaluate scores.npz --threshold 1 --calibration scores.npz": "give no --threshold",
    "evaluate scores.npz --json --out folder": "folder",
    "evaluate scores.npz --json --out scores.npz": "another file than those it is made",
    "compare seeds/{method}_{seed}.csv --bootstrap -5": "bootstrap",
    "compare scores.npz test/scores-knn.npz --against msp": "--against must be one of",
    "compare scores.npz test/scores-knn.npz --metric oosa": "needs --calibration",
    "compare missing --metric oosa": "missing",
    "score test.npz": "--detector must be given",
    "score -d knn test.npz": "--train must be given for knn",
    "score -d knn:kk=2 test.npz --train train.npz": "options of knn: bank",
    "score -d msp test.npz --out x.txt": ".txt must be one of",
    "score -d msp test.npz --out ./rejector/../test.npz": "another file than those",
    "score -d msp -d energy test.npz --out x.npz": "--out must be a folder",
    "score -d guests:BadFile --train train.npz test.npz": "Expecting property name",
    "predict rejector test.npz --plugin json": "'package.module:Name', got",
    "predict rejector test.npz --out test.npz": "another file than those",
    "predict rejector shards": "--out must be given",
    "calibrate --out r --test a.npz --test b.npz": "--test may be given once",
    "calibrate --out r": "--known must be given",
    "calibrate --run missing --out r": "no such file: missing/outputs/train.npz",
    "calibrate --out r --known far.npz --surrogate val.npz": "swapped",
    "calibrate --out r --known val.npz -d msp -d energy": "--surrogate must be",
    "calibrate --out r --known val.npz --objective at_tpr:fpr=1": "one of 'tpr'",
    "calibrate --out r --known train.npz --train train.npz --surrogate far.npz": (
        "got 300 of 300 known"
    ),
    "export rejector --out x.onnx --head head.npz": "are for a network by name",
    "export rejector --out same.onnx --model same.onnx": "another file than those",
    "serve rejector --invalid maybe": "'maybe' is not one of 'error', 'reject'",
    "protocols show draws.json 3": "SPLIT must be one of '0', got '3'",
    "train": "--data must be given",
    "train --data digits --pretrained --weights w.pth": "exclude each other",
    "train --data digits --known 3,1 --split 1": "--known takes the place of",
    "train --data digits --known 3,ten": "got 'ten'",
    "train --data digits --known 0,1,2,3,4,5,6,7,8,9": "must leave some classes",
    "train --data digits --seeds 0": "'--seeds'",
    "train --data digits --epochs 2 --set epochs=3": "multiple values",
    "train --data digits --out folder/../shards": "out must be a new or empty folder",
    "extract missing bare.npy": "timm:NAME",
    "extract tests.extract.test_data:small bare.npy --out x.txt": "--out must be .npz",
    "extract tests.extract.test_data:small bare.npy --device abacus": "Expected one of",
    "bench": "STUDY must be given",
    "bench study.yaml": "--out must be given",
    "bench study.yaml -d msp": "are for a named benchmark",
    "bench cifar10": "one of 'cifar+10'",
    "bench openood:cifar10 --out x": "--outputs must be given",
    "reproduce openauc-table9": "one of 'openauc-table1'",
    "demo --out scores.npz": "'--out'",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_the_message_says_what_is_wrong(fails, folder, words):
    def files():
        return {p: p.stat().st_mtime_ns for p in folder.glob("[!_]*")}

    before = files()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert MISTAKES[words] in fails(words)
    assert files() == before


def test_data_that_cannot_be_had_end_with_exit_code_1(fails, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    words = f"reproduce class-imbalance-table1 --root . --out {tmp_path / 'out'}"
    said = fails(words, code=1)
    assert "needs the data sets cifar10, svhn. openset datasets says how" in said


def test_verbose_shows_where_an_error_comes_from(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    words = "--verbose score -d guests:BadFile --train train.npz test.npz"
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert 'in fit_state\n    return {"limits": np.asarray(json.loads("{bad"))}' in err


def test_a_warning_about_a_file_is_one_line(folder, tmp_path, monkeypatch, capsys):
    odds = np.exp(Outputs.load(folder / "test.npz").logits)
    odds /= odds.sum(axis=1, keepdims=True)
    np.savez(folder / "odds.npz", logits=odds, features=np.eye(len(odds), 6))
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        with pytest.raises(SystemExit) as end:
            main(["predict", "rejector", "odds.npz"])
    assert end.value.code == 0
    said = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("warning: Outputs: logits look") for line in said) == 1
    assert not any(".py" in line for line in said)
