"""Files that are not what a command needs: one line that names them, no traceback."""

import warnings

import numpy as np
import pytest

from openset import Outputs, Rejector, Scores, detectors
from openset.cli import main
from tests.cli.conftest import outputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write good files, and one for everything that can be wrong with a file."""
    folder = tmp_path_factory.mktemp("files")
    test = outputs(80, 0.3, seed=1)
    train = outputs(60, 0, seed=0)
    train.save(folder / "train.npz")
    test.save(folder / "test.npz")
    fitted = detectors.MSP().fit(train)
    Rejector.calibrate(fitted, known=test).save(folder / "rejector")
    scores = fitted.score(test)
    scores.save(folder / "scores.npz")
    scores.take(~scores.is_unknown).save(folder / "knowns.npz")

    (folder / "folder").mkdir()
    for name in ("empty.npz", "empty.csv"):
        (folder / name).touch()
    for name in ("text.npz", "notes.txt", "other.csv"):
        (folder / name).write_text("hello")
    (folder / "short.csv").write_text("labels,known\n0,1.0\n-1,0.5\n")
    (folder / "nan.csv").write_text("labels,predicted,known\n0,0,nan\n-1,0,0.5\n")
    arrays = {"logits": test.logits, "labels": test.labels}
    np.save(folder / "bare.npy", test.logits)
    bad = {
        "unlabelled": {"logits": test.logits},
        "wide": {"logits": np.eye(5), "labels": np.arange(5)},
        "nan": {"logits": [[np.nan, 0.0, 0.0]], "labels": [0]},
        "uneven": {"logits": test.logits, "labels": [0, 1]},
        "uneven-scores": {"labels": [0, -1], "predicted": [0], "known": [1.0]},
        "unlabelled-scores": {"predicted": [0], "known": [1.0]},
        # -1 as an integer with a sign
        "big": {"labels": np.array([2**64 - 1, 0], np.uint64), "predicted": [0, 0]}
        | {"known": [1.0, 2.0]},
    }
    for name, parts in bad.items():
        np.savez(folder / f"{name}.npz", **parts)
    for name in ("labels", "predicted"):
        row = {"labels": "0", "predicted": "0", "known": "0.5", name: "9" * 20}
        text = ",".join(row) + "\n" + ",".join(row.values()) + "\n-1,0,0.1\n"
        (folder / f"big-{name}.csv").write_text(text)
    np.savez_compressed(folder / "packed.npz", **arrays)
    packed = (folder / "packed.npz").read_bytes()
    for name, place in (("offset", -6), ("flipped", 200)):  # list of members; a member
        content = bytearray(packed)
        content[place] ^= 255
        (folder / f"{name}.npz").write_bytes(content)
    # A file of torch is a zip archive, as a .npz is.
    (folder / "other.pt").write_bytes(packed[:-9])
    return folder


OUTPUTS = [
    *("missing.npz", "folder", "bare.npy", "empty.npz", "text.npz", "nan.npz"),
    *("uneven.npz", "wide.npz", "scores.npz", "offset.npz", "flipped.npz"),
    *("other.csv", "other.pt"),
]
SCORES = [
    *("missing.npz", "folder", "bare.npy", "empty.npz", "empty.csv", "text.npz"),
    *("short.csv", "nan.csv", "uneven-scores.npz", "unlabelled-scores.npz"),
    *("test.npz", "knowns.npz", "offset.npz", "flipped.npz"),
    *("big-labels.csv", "big-predicted.csv", "big.npz"),
]
CASES = [
    *(("predict rejector", name) for name in OUTPUTS),
    *(("watch rejector", name) for name in OUTPUTS if name != "scores.npz"),
    *(("score -d knn --train train.npz", name) for name in OUTPUTS),
    *(("score -d knn test.npz --train", name) for name in OUTPUTS),
    ("calibrate --surrogate test.npz --out new --known", "other.pt"),
    ("calibrate --known test.npz --out new --surrogate", "other.csv"),
    ("score -d msp", "unlabelled.npz"),
    ("evaluate --groups", "knowns.npz"),
    ("watch rejector", "notes.txt"),
    *(("evaluate", name) for name in SCORES),
    *(("compare scores.npz", name) for name in SCORES),
]


@pytest.mark.parametrize(("words", "name"), CASES)
def test_the_file_is_named_and_nothing_is_printed_before(
    folder, monkeypatch, capsys, words, name
):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main([*words.split(), name])
    said = capsys.readouterr()
    assert end.value.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert name in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("score -d msp unlabelled.npz", "must have labels"),
        ("predict rejector test.npz --plugin json", "'package.module:Name', got"),
        ("predict rejector test.npz --out x.txt", ".txt must be one of"),
        ("score -d msp test.npz --out x.txt", ".txt must be one of"),
        ("check scores.npz", "no such folder: scores.npz"),
        (
            "calibrate --run missing --out new",
            "no such file: missing/outputs/train.npz",
        ),
        ("compare .", "must be a run folder"),
        ("report .", ". must be a run folder"),
        ("bench missing.yaml --out runs", "missing.yaml"),
        ("compare missing --metric oosa", "missing"),
        ("extract missing bare.npy", "timm:NAME"),
        ("evaluate scores.npz --level 2", "level must be a number"),
        ("evaluate scores.npz --metric no", "must be one of"),
        ("evaluate gone.npz", "no such file: gone.npz"),
        ("evaluate scores.npz --json --out folder", "folder"),
        ("evaluate scores.npz --json --out text.npz/table.json", "text.npz"),
        ("evaluate scores.npz short.csv --level 7 --sketch", "--sketch is for"),
        ("report scores.npz --out page.txt", "page.txt"),
    ],
)
def test_the_message_says_what_to_do(folder, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main(words.split())
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    assert expected in said.err


def test_scores_are_saved_where_they_are_read(folder, run, tmp_path, monkeypatch):
    """The good files are good: what is refused above is not refused for all."""
    monkeypatch.chdir(folder)
    out = tmp_path / "s.npz"
    run("score", "-d", "msp", "--train", "train.npz", "test.npz", "--out", out)
    assert np.array_equal(Scores.load(out).known, Scores.load("scores.npz").known)
    run("compare", "scores.npz", out)
    run("predict", "rejector", "test.npz")


def test_a_warning_about_a_file_is_one_line(folder, tmp_path, monkeypatch, capsys):
    odds = np.exp(Outputs.load(folder / "test.npz").logits)
    np.savez(tmp_path / "odds.npz", logits=odds / odds.sum(axis=1, keepdims=True))
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        with pytest.raises(SystemExit) as end:
            main(["predict", "rejector", str(tmp_path / "odds.npz")])
    assert end.value.code == 0
    said = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("warning: Outputs: logits look") for line in said) == 1
    assert not any(".py" in line for line in said)
