"""From outputs on disk to scores, and from scores to a verdict."""

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs, Scores, detectors
from openset.cli import app
from openset.cli._detector_options import recipe


@pytest.fixture
def splits(tmp_path):
    rng = np.random.default_rng(0)

    def split(n, *, unknown):
        labels = np.where(rng.random(n) < unknown, -1, rng.integers(0, 3, n))
        features = rng.normal(size=(n, 4)) + 3 * np.eye(4)[labels]
        return Outputs(
            logits=features[:, :3] * 2, features=features, labels=labels, classes="abc"
        )

    train = split(200, unknown=0.0).save(tmp_path / "train.npz")
    test = split(150, unknown=0.4).save(tmp_path / "test")
    return train, test


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_one_detector_writes_one_file(splits, tmp_path):
    train, test = splits
    out = tmp_path / "scores.csv"
    run("score", "--detector", "postmax", "--train", train, test, "-o", out)
    expected = detectors.PostMax().fit(Outputs.load(train)).score(Outputs.load(test))
    assert np.array_equal(Scores.load(out).known, expected.known)


def test_detectors_whose_files_would_be_one_are_refused(splits, tmp_path):
    """Also where the file system does not tell upper from lower case."""
    train, test = splits
    wanted = ["-d", "energy:temperature=1e3", "-d", "energy:temperature=1E3"]
    words = ["score", *wanted, "--train", train, test, "--out", tmp_path / "scores"]
    with pytest.raises(ValueError, match="detectors whose files have different names"):
        CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert not (tmp_path / "scores").exists()


def test_several_detectors_write_a_folder_that_compare_reads(splits, tmp_path):
    train, test = splits
    out = tmp_path / "scores"
    wanted = ["-d", "msp", "-d", "knn:k=7", "-d", "energy"]
    run("score", *wanted, "--train", train, test, "--out", out)
    files = sorted(out.iterdir())
    names = ["scores-energy.npz", "scores-knn-k=7.npz", "scores-msp.npz"]
    assert [file.name for file in files] == names
    knn = detectors.KNN(k=7).fit(Outputs.load(train)).score(Outputs.load(test))
    assert np.array_equal(Scores.load(files[1]).known, knn.known)
    text = run("compare", *files)
    assert "knn-k=7" in text
    assert "Pairwise differences in openauc" in text
    lines = text.partition("Pairwise")[2].splitlines()
    named = [line.split() for line in lines if " … " in line]
    assert [words[-1] in {*words[:2], "verdict"} for words in named] == [True] * 3
    assert r"\toprule" in run("compare", *files, "--latex")
    assert run("compare", *files, "--csv").startswith("set,metric,value")


def test_options_are_read_from_the_name():
    assert recipe("postmax:norm=l1,only_correct=false") == detectors.PostMax(
        norm="l1", only_correct=False
    )
    assert recipe("msp:temperature=2.5") == detectors.MSP(temperature=2.5)
    # "none" is a word of one option and the value None of the other.
    assert recipe("postmax:norm=none") == detectors.PostMax(norm="none")
    assert recipe("knn:bank=none,k=3") == detectors.KNN(bank=None, k=3)
    for text, words in {
        "pstmax": "--detector must be one of 'ash'",
        "knn:k": "must be name:option=value",
        "knn:kk=3": "knn does not take these options: kk=3. It takes k, bank",
        "energy:x=3": "energy does not take these options: x=3. It takes ",
        "postmax:x=3": "x=3. It takes norm, fit, only_correct",
        "knn:k=none": "must be an integer >= 1, got None",
        "knn:k=0": "openset: k of --detector knn:k=0 must be an integer >= 1, got 0",
    }.items():
        with pytest.raises(ValueError, match=words):
            recipe(text)


def test_names_of_files_are_printed_as_they_are(splits, tmp_path):
    train, test = splits
    out = tmp_path / "[bold]x.npz"
    assert str(out) in run("score", "-d", "msp", "--train", train, test, "-o", out)


def test_what_cannot_be_compared_is_refused(splits, tmp_path):
    train, test = splits
    run("score", "-d", "msp", "--train", train, test, "-o", tmp_path / "a.npz")
    runner = CliRunner()
    one = runner.invoke(app, ["compare", str(tmp_path / "a.npz")])
    assert "two or more different files" in str(one.exception)
    two = [str(tmp_path / "a.npz"), str(test)]
    bad = runner.invoke(app, ["compare", *two, "--metric", "osa"])
    assert "--metric must be one of" in str(bad.exception)
    many = runner.invoke(
        app, ["score", "-d", "msp", "-d", "gen", "--train", "t", "x", "-o", "s.npz"]
    )
    assert "must be a folder for several detectors" in str(many.exception)


def test_every_detector_is_listed():
    text = run("detectors")
    for name in detectors.names():
        assert name in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "txt"], "--format must be one of"),
        (["--backend", "slurm"], "--backend must be one of"),
        (["--jobs", "0"], "--jobs must be an integer >= 1"),
    ],
)
def test_options_for_shards_are_checked_before_the_work(
    splits, tmp_path, options, said
):
    """Nothing is fitted, and no folder is left."""
    (tmp_path / "shards").mkdir()
    Outputs.load(splits[1]).save(tmp_path / "shards" / "a.npz")
    words = ["score", "-d", "msp", str(tmp_path / "shards")]
    words += ["--out", str(tmp_path / "out"), *options]
    result = CliRunner().invoke(app, words)
    assert said in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_detector_that_fails_is_named_and_the_others_are_kept(splits, tmp_path):
    train, test = splits
    found = Outputs.load(test)
    features = np.array(found.features)
    features[7] = np.inf  # no answer of KNN; MSP and energy do not look at it
    Outputs(logits=found.logits, features=features, labels=found.labels).save(
        tmp_path / "odd.npz"
    )
    small = Outputs.load(train).take(slice(0, 3)).save(tmp_path / "small.npz")
    # PostMax cannot be fitted on three samples.
    words = ["-d", "msp", "-d", "postmax", "-d", "knn:k=1", "-d", "energy"]
    words += ["--train", small, tmp_path / "odd.npz", "--out", tmp_path / "scores"]
    with np.errstate(all="ignore"):
        text = " ".join(run("score", *words, code=1).split())
    assert "failed: postmax:" in text
    assert "failed: knn:k=1:" in text
    assert "NaN for 1 samples, first in row 7" in text
    names = sorted(file.name for file in (tmp_path / "scores").iterdir())
    assert names == ["scores-energy.npz", "scores-msp.npz"]
    expected = detectors.MSP().fit().score(found).known
    assert np.array_equal(Scores.load(tmp_path / "scores" / names[1]).known, expected)


def test_shards_are_not_scored_unless_all_detectors_can_be_fitted(splits, tmp_path):
    """The folder could not be continued with all of them later."""
    train, test = splits
    small = Outputs.load(train).take(slice(0, 3)).save(tmp_path / "small.npz")
    (tmp_path / "in").mkdir()
    Outputs.load(test).save(tmp_path / "in" / "a.npz")
    words = ["-d", "msp", "-d", "postmax", "--train", small, tmp_path / "in"]
    text = run("score", *words, "--out", tmp_path / "out", code=1)
    assert "failed: postmax:" in text
    assert not list(tmp_path.glob("out/*/a.*"))
