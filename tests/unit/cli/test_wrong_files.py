"""Files that are not what a command needs: one line that names them, no traceback."""

import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import openset.cli
from openset import MissingExtraError, Outputs, Rejector, Scores, detectors
from openset.cli import app
from openset.cli._errors_in_options import in_options


def split(seed, n, *, unknown):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < unknown, -1, rng.integers(0, 3, n))
    logits = rng.normal(size=(n, 3)) + 6 * np.vstack([np.eye(3), np.zeros(3)])[labels]
    return Outputs(logits=logits, labels=labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write good files, and one for everything that can be wrong with a file."""
    folder = tmp_path_factory.mktemp("files")
    train, test = split(0, 60, unknown=0), split(1, 80, unknown=0.3)
    train.save(folder / "train.npz")
    test.save(folder / "test.npz")
    fitted = detectors.MSP().fit(train)
    Rejector.calibrate(fitted, known=test).save(folder / "rejector")
    scores = fitted.score(test)
    scores.save(folder / "scores.npz")
    scores.take(~scores.is_unknown).save(folder / "knowns.npz")

    (folder / "folder").mkdir()
    (folder / "empty.npz").touch()
    (folder / "empty.csv").touch()
    (folder / "text.npz").write_text("hello")
    (folder / "short.csv").write_text("labels,known\n0,1.0\n-1,0.5\n")
    (folder / "nan.csv").write_text("labels,predicted,known\n0,0,nan\n-1,0,0.5\n")
    np.save(folder / "bare.npy", test.logits)
    np.savez(folder / "unlabelled.npz", logits=test.logits)
    np.savez(folder / "wide.npz", logits=np.eye(5), labels=np.arange(5))
    np.savez(folder / "nan.npz", logits=[[np.nan, 0.0, 0.0]], labels=[0])
    np.savez(folder / "uneven.npz", logits=test.logits, labels=[0, 1])
    np.savez(folder / "uneven-scores.npz", labels=[0, -1], predicted=[0], known=[1.0])
    np.savez(folder / "unlabelled-scores.npz", predicted=[0], known=[1.0])
    for name in ("labels", "predicted"):
        row = {"labels": "0", "predicted": "0", "known": "0.5", name: "9" * 20}
        text = ",".join(row) + "\n" + ",".join(row.values()) + "\n-1,0,0.1\n"
        (folder / f"big-{name}.csv").write_text(text)
    big = np.array([2**64 - 1, 0], dtype=np.uint64)  # -1 as an integer with a sign
    np.savez(folder / "big.npz", labels=big, predicted=[0, 0], known=[1.0, 2.0])
    np.savez_compressed(folder / "packed.npz", logits=test.logits, labels=test.labels)
    content = bytearray((folder / "packed.npz").read_bytes())
    content[-6] ^= 1  # where the list of members begins
    (folder / "offset.npz").write_bytes(content)
    content = bytearray((folder / "packed.npz").read_bytes())
    content[200] ^= 255
    (folder / "flipped.npz").write_bytes(content)
    return folder


OUTPUTS = [
    *("missing.npz", "folder", "bare.npy", "empty.npz", "text.npz", "nan.npz"),
    *("uneven.npz", "wide.npz", "scores.npz", "offset.npz", "flipped.npz"),
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
    *(("score -d msp --train train.npz", name) for name in OUTPUTS),
    *(("score -d msp test.npz --train", name) for name in OUTPUTS if name[0] != "w"),
    *(("score -d msp --train train.npz", name) for name in ["unlabelled.npz"]),
    *(("evaluate", name) for name in SCORES),
    *(("compare scores.npz", name) for name in SCORES),
    *(("evaluate --groups", name) for name in ["scores.npz"]),
    *(("score -d vim test.npz --train", name) for name in ["train.npz"]),
]


@pytest.mark.parametrize(("words", "name"), CASES)
def test_the_file_is_named_and_nothing_is_printed_before(
    folder, monkeypatch, capsys, words, name
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["openset", *words.split(), name])
    with pytest.raises(SystemExit) as end:
        openset.cli.main()
    said = capsys.readouterr()
    assert end.value.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert name in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("score -d msp --train train.npz unlabelled.npz", "use openset predict"),
        ("evaluate scores.npz --groups", "Add a column groups"),
        ("evaluate scores.npz --bootstrap 9 --clusters", "Add a column groups"),
        ("compare scores.npz", "two or more different files"),
        ("compare short.csv", "the columns known, labels). Scores: give two files"),
        (
            "predict rejector test.npz --plugin json",
            "openset predict: --plugin must be 'package.module:Name', got 'json'",
        ),
        ("check scores.npz", "openset check: scores.npz must be a folder, got a file"),
        ("demo --out scores.npz", "openset demo: --out must be a folder, got scores"),
        ("calibrate --run missing --out new", "no such folder: missing"),
        ("compare .", "Give its files: openset compare ./*.npz"),
        ("report .", "openset report: . must be a run folder"),
        ("bench missing.yaml --out runs", "openset bench: no such file: missing.yaml"),
        ("bench missing.yaml", "openset bench: no such file: missing.yaml"),
        ("bench stdy", "got stdy, and there is no such file"),
        (
            "compare missing --metric oosa",
            "openset compare: no such file or folder: missing",
        ),
        ("train --data missing", "openset train: --data must be one of"),
        ("extract missing bare.npy", "NETWORK must be timm:NAME"),
    ],
)
def test_remedies_are_those_of_the_shell(folder, monkeypatch, words, expected):
    monkeypatch.chdir(folder)
    error = CliRunner().invoke(app, words.split()).exception
    if isinstance(error, MissingExtraError):
        raise error
    assert expected in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "predict rejector missing.npz --out decisions.txt",
        "score -d msp --train missing.npz missing.npz --out scores.txt",
    ],
)
def test_the_ending_is_looked_at_before_the_work(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    error = CliRunner().invoke(app, words.split()).exception
    assert ".txt must be one of" in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "predict rejector",
        "score -d msp",
        "calibrate --surrogate test.npz --out new --known",
        "calibrate --known test.npz --out new --surrogate",
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".pt"])
def test_outputs_of_another_format_are_told_which_can_be_read(
    folder, monkeypatch, words, ending
):
    monkeypatch.chdir(folder)
    # A file of torch is a zip archive, as a .npz is.
    content = b"a,b" if ending == ".csv" else (folder / "packed.npz").read_bytes()[:-9]
    (folder / f"other{ending}").write_bytes(content)
    error = CliRunner().invoke(app, [*words.split(), f"other{ending}"]).exception
    rule = f"other{ending} must be a .npz file or a folder of .npy files, got a"
    assert f"{rule} {ending} file" in str(error)
    assert "damaged" not in str(error)


def test_watch_says_which_formats_it_reads(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "notes.txt").write_text("hello")
    error = CliRunner().invoke(app, ["watch", "rejector", "notes.txt"]).exception
    assert str(error) == (
        "openset watch: the ending of notes.txt must be one of '.npz', '.csv', "
        "'.parquet', got '.txt'"
    )


@pytest.mark.parametrize("out", ["folder", "text.npz/table.json"])
def test_a_place_that_cannot_be_written_is_named(folder, monkeypatch, capsys, out):
    monkeypatch.chdir(folder)
    words = ["openset", "evaluate", "scores.npz", "--json", "--out", out]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit):
        openset.cli.main()
    assert capsys.readouterr().err.startswith(f"error: {out.split('/')[0]}: ")


def test_names_of_classes_are_not_markup(folder, tmp_path):
    known = split(2, 60, unknown=0)
    named = Outputs(
        logits=known.logits, labels=known.labels, classes=["[a]", "[b]", "[c]"]
    )
    Rejector.calibrate(
        detectors.MSP().fit(named), known=named, objective="at_tpr"
    ).save(tmp_path / "rejector")
    new = [str(tmp_path / "rejector"), str(folder / "test.npz")]
    text = CliRunner().invoke(app, ["predict", *new]).output
    decided = Rejector.load(tmp_path / "rejector").predict(
        Outputs.load(folder / "test.npz")
    )
    for number in set(decided[:10].tolist()) - {-1}:
        assert f"[{'abc'[number]}]" in text


def test_scores_are_saved_where_they_are_read(folder, monkeypatch, tmp_path):
    """The good files are good: what is refused above is not refused for all."""
    monkeypatch.chdir(folder)
    out = tmp_path / "s.npz"
    words = f"score -d msp --train train.npz test.npz --out {out}".split()
    assert CliRunner().invoke(app, words).exit_code == 0
    again = Scores.load(out)
    assert np.array_equal(again.known, Scores.load("scores.npz").known)
    for words in (f"compare scores.npz {out}", "predict rejector test.npz"):
        assert CliRunner().invoke(app, words.split()).exit_code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("evaluate scores.npz --level 2", "openset evaluate: --level must be a number"),
        (
            "evaluate scores.npz --metric no",
            "openset evaluate: --metric must be one of",
        ),
        ("compare scores.npz other.npz --level 2", "openset compare: --level must be"),
        ("report scores.npz --out page.txt", "openset report: --out must be a name"),
        ("evaluate gone.npz", "openset evaluate: no such file: gone.npz"),
    ],
)
def test_errors_name_the_option(folder, monkeypatch, words, expected):
    monkeypatch.chdir(folder)
    folder.joinpath("other.npz").write_bytes(folder.joinpath("scores.npz").read_bytes())
    error = CliRunner().invoke(app, words.split()).exception
    assert str(error).startswith(expected)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("evaluate: level must be > 0, got 0", "openset x: --level must be > 0, got 0"),
        ("KNN.fit: level must be 1, got 0", "openset x: --level must be 1, got 0"),
        ("openset x: level must be 1, got 0", "openset x: --level must be 1, got 0"),
        ("a.load: none. Use level=[1, 2]", "openset x: none. Use --level 1, 2"),
        ("Scores.load: x.csv: column bad", "openset x: x.csv: column bad"),
        # Where the error is must not get lost: a detector, a file, a folder.
        ("KNN.fit: k must be 1, got 0", "KNN.fit: k must be 1, got 0"),
        ("x.npz: level must be 1, got 0", "x.npz: level must be 1, got 0"),
        ("train: KNN.fit: level must be 1", "train: KNN.fit: level must be 1"),
        ("x.npz: KNN.fit: k must be 1", "x.npz: KNN.fit: k must be 1"),
        ("x.npz: Scores: level must be 1", "x.npz: openset x: --level must be 1"),
        ("f: x must be y. Give F(level=1)", "openset x: x must be y. Give F(level=1)"),
        ("no caller here", "no caller here"),
    ],
)
def test_messages_in_terms_of_options(message, expected):
    assert in_options(message, "openset x", {"level": "--level"}) == expected


def test_a_warning_about_a_file_is_one_line(folder, tmp_path, monkeypatch, capsys):
    odds = np.exp(Outputs.load(folder / "test.npz").logits)
    odds /= odds.sum(axis=1, keepdims=True)
    np.savez(tmp_path / "odds.npz", logits=odds)
    words = ["openset", "predict", str(folder / "rejector"), str(tmp_path / "odds.npz")]
    monkeypatch.setattr("sys.argv", words)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        with pytest.raises(SystemExit) as end:
            openset.cli.main()
    assert end.value.code == 0
    said = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("warning: Outputs: logits look") for line in said) == 1
    assert not any(".py" in line for line in said)
