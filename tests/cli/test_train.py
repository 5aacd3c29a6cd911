"""`openset train`, as it is typed."""

import json
import re

import numpy as np
import pytest

from openset import Outputs, Scores, datasets, evaluate, protocols
from openset.train import Trained, methods

QUICK = ("--data", "digits", "--recipe", "arpl", "--epochs", 2, "--set", "lr=0.02")


@pytest.fixture
def draws(tmp_path):
    """Write two draws of the digits."""
    path = tmp_path / "draws.json"
    protocols.holdout(datasets.load("digits"), 6, 4, 2, rng=0).save(path)
    return path


@pytest.fixture
def train(run):
    """Return a function that trains with the shortest recipe."""
    return lambda *words: run("train", *words[:2], *QUICK, *words[2:])


def spec(folder):
    return json.loads((folder / "trained.json").read_text("utf-8"))["spec"]


def test_methods_are_listed_with_their_options(run):
    text = run("train", "--list")
    assert all(name in text for name in methods.names())
    assert "weight=0.1" in text


def test_a_run_leaves_what_all_other_commands_read(train, run, draws, tmp_path):
    out, words = tmp_path / "my [run]", ("--protocol", draws, "--split", "1")
    text = train("-m", "softmax", *words, "--out", out)
    assert "split 1, seed 0" in text
    trained = Trained.load(out)
    assert sorted(trained.outputs) == ["test", "train", "validation"]
    unknown = protocols.load(draws)[1].unknown
    assert trained.spec["protocol"]["unknown"] == [*unknown]
    scores = Scores.load(out / "scores" / "published.npz")
    assert f"{evaluate(scores)['openauc']:.4f}" in text
    assert len(Outputs.load(out / "outputs" / "test.npz")) == len(scores)
    run("evaluate", out / "scores" / "published.npz")
    run("calibrate", "--run", out, "--out", tmp_path / "rejector")
    again = train("-m", "softmax", *words, "--out", out)
    assert "finished before, and not trained again: 1 of 1" in again


def test_options_settings_and_execution_reach_the_library(train, draws, tmp_path):
    words = ("--protocol", draws, "--set", "padding=0", "--set", "max_train=90")
    text = train(
        "-m", "openauc:preset=paper,weight=0.3", *words, "--set", "curves=true",
        "--set", "accelerator=cpu", "--set", "validation=0", "--out", tmp_path / "run",
    )  # fmt: skip
    assert "OpenAUC, test part" in text
    found = spec(tmp_path / "run")
    assert found["options"] == {"preset": "paper", "weight": 0.3}
    assert found["recipe"]["pipeline"]["padding"] == 0
    assert (found["recipe"]["epochs"], found["recipe"]["lr"]) == (2, 0.02)
    trained = Trained.load(tmp_path / "run")
    assert len(trained.outputs["train"]) == 90
    assert "validation" not in trained.outputs
    assert "openauc" in str(trained.log[-1])


def test_all_splits_and_seeds_have_folders_and_a_mean(train, draws, tmp_path):
    words = ("--protocol", draws, "--split", "all", "--seeds", 2, "--out", tmp_path)
    text = train("-m", "softmax", *words)
    folders = {path.parent.name for path in tmp_path.glob("*/trained.json")}
    assert folders == {f"split{s}-seed{i}" for s in (0, 1) for i in (0, 1)}
    scores = (Scores.load(tmp_path / one / "scores/published.npz") for one in folders)
    values = [evaluate(one)["openauc"] for one in scores]
    for name, value in (("mean", np.mean(values)), ("sd", np.std(values, ddof=1))):
        assert re.search(rf"{name} .* {value:.4f}", text)


def test_splits_that_are_one_problem_are_named(run, tmp_path):
    same = protocols.holdout(datasets.load("digits"), 6, 4, rng=0)
    protocols.Draws((same, same)).save(tmp_path / "same.json")
    words = ("--protocol", tmp_path / "same.json", "--split", "all")
    words += ("-m", "softmax", *QUICK, "--out", tmp_path / "runs")
    said = " ".join(run("train", *words, stream="stderr").split())
    assert "Splits 0, 1 are the same problem" in said


def test_known_classes_are_named(train, tmp_path):
    train("-m", "softmax", "--known", "3, 1,7", "--out", tmp_path / "run")
    found = protocols.load(tmp_path / "run" / "protocol.json")
    assert found.known == ("3", "1", "7")
    assert found.unknown == ("0", "2", "4", "5", "6", "8", "9")


@pytest.mark.parametrize("given", ["digits", "others.npz"])
def test_negatives_are_classes_left_over_or_another_data_set(run, tmp_path, given):
    digits = datasets.load("digits")
    draws = tmp_path / "draws.json"
    protocols.holdout(digits, 5, 2, 2, rng=0).save(draws)
    others = tmp_path / "others.npz"
    datasets.from_arrays(-digits.inputs[:40], ["far"] * 40).save(others)
    name = given if given == "digits" else others
    words = ("-m", "entropic", *QUICK, "--protocol", draws, "--negatives", name)
    words += ("--split", "all", "--tune", "ratio=0.5,1", "--out", tmp_path / "run")
    text = run("train", *words)
    for number in range(2):
        folder = tmp_path / f"run/split{number}-seed0"
        trained = Trained.load(folder)
        assert f"Split {number} is trained with ratio=" in text
        assert spec(folder)["options"]["ratio"] in {0.5, 1}
        used = {*trained.outputs["test"].groups, *trained.outputs["train"].groups}
        left = set(digits.classes) - used if given == "digits" else {"far"}
        assert set(trained.outputs["negative"].groups) == left
