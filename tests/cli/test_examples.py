"""The examples of every page of help: they exist, and they run."""

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors, protocols
from openset.bench import named
from openset.cli import app
from openset.runs import Cell
from tests.bench.made_outputs import made

PROGRAMS = ("openset", "curl", "torchrun")

NOT_RUN = {
    "protocols outlier": "wants data sets that are downloaded",
    "demo": "takes seconds, and is run in tests/unit/cli/test_demo.py",
    "serve": "serves until it is stopped",
    "train": "wants data sets that are downloaded",
    "extract": "wants a trained network",
    "export": "wants onnx, and is run in test_export.py",
    "report": "wants jinja2, and is run in tests/report",
    "bench study.yaml": "wants a study, and is run in tests/unit/cli/test_bench.py",
    "reproduce": "wants data sets, and is run in test_reproduce.py",
    "check": "wants a study, and is run in test_check.py",
}


def pages(command, words=()):
    """Yield every command of a group, and of the groups in it, by its words."""
    yield words, command
    for name, part in getattr(command, "commands", {}).items():
        yield from pages(part, (*words, name))


PAGES = dict(pages(get_command(app)))


def examples(words):
    """Return the examples of a page, each as one line: what is indented in its help."""
    command = PAGES[words]
    text = f"{command.help or ''}\n\n{command.epilog or ''}".replace("\\\n", "")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line.startswith(PROGRAMS)]


def arguments(example):
    """Return the words after ``openset``, up to what belongs to the shell."""
    words = shlex.split(example, comments=True)
    words = words[words.index("openset") + 1 :]
    ends = [i for i, word in enumerate(words) if word in {">", "|", "||", "&&"}]
    return words[: min(ends, default=len(words))]


EXAMPLES = {
    example: words
    for words in PAGES
    for example in examples(words)
    if "openset" in example.split()
}


def test_all_commands_are_looked_at():
    assert {("serve",), ("compare",), ("protocols", "outlier")} <= set(PAGES)


@pytest.mark.parametrize("words", [words for words in PAGES if words])
def test_every_page_has_an_example_of_its_command(words):
    mine = [one for one in examples(words) if "openset" in one.split()]
    assert list(words) in [arguments(example)[: len(words)] for example in mine]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_have_arguments_and_options_that_exist(example):
    command, rest = get_command(app), arguments(example)
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    assert command is not get_command(app)
    if not hasattr(command, "commands"):
        command.make_context("openset", rest)  # raises what a user would read


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make the files the examples name."""
    there = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)

    def outputs(n, unknown):
        labels = np.where(rng.random(n) < unknown, -1, np.arange(n) % 3)
        centres = np.vstack([4 * np.eye(3, 12), np.zeros(12)])
        features = rng.normal(size=(n, 12)) + centres[labels]
        return Outputs(
            logits=features[:, :3],
            features=features,
            labels=labels,
            groups=np.where(labels < 0, "somewhere", ""),
            weight=np.eye(3, 12),
            bias=np.zeros(3),
        )

    train, calibration = outputs(300, 0), outputs(200, 0.4)
    train.save(there / "train.npz")
    train.save(there / "train")
    outputs(200, 0).save(there / "val.npz")
    for name, unknown in (("train", 0), ("validation", 0), ("test", 0.4)):
        outputs(300, unknown).save(there / f"runs/a/outputs/{name}.npz")
    for name in ("negatives", "near", "far"):
        outputs(60, 1).save(there / f"{name}.npz")
    for name in ("test.npz", "test", "new.npz", "new-outputs.npz"):
        outputs(200, 0.4).save(there / name)
    for name in ("today", "monday", "tuesday", "calibration", "lastweek"):
        outputs(600, 0.4).save(there / f"{name}.npz")
    for i in (1, 2):
        outputs(600, 0.4).save(there / "traffic" / f"traffic-00000{i}.npz")
    for name in ("msp", "postmax"):
        fitted = detectors.make(name).fit(train)
        scores = fitted.score(calibration)
        for path in (f"scores/{name}.npz", f"scores-{name}.npz"):
            scores.save(there / path)
        for path in (f"calibration/{name}.npz", "calibration-scores.npz"):
            fitted.score(outputs(200, 0.4)).save(there / path)
        for i in range(3):
            key = {"protocol": "p", "repeat": i, "model": "m", "method": ""}
            value = {"metric": "oosa", "value": float(rng.random()), "n": 200}
            Cell(key=key | {"detector": name}, rows=[value]).save(there / "runs/study")
            half = scores.take(np.arange(i, len(scores), 2))
            half.save(there / f"runs/{name}_seed{i}.csv")
    scores.save(there / "scores.npz")
    for name in ("monday", "tuesday"):
        scores.save(there / f"scores-{name}.npz")
    scores.save(there / "scores.csv")
    theirs = "y,predicted,energy\ncat,cat,-3\ndog,cat,-1\noos,cat,2\noos,dog,-2\n"
    (there / "theirs.csv").write_text(theirs, encoding="utf-8")
    Rejector.calibrate(fitted, known=calibration).save(there / "rejector")
    made(there / "outputs", named.load("mnist-small"))
    protocols.holdout(10, n_known=6, n_unknown=4, repeats=2).save(there / "draws.json")
    return there


def is_run(example):
    said = arguments(example)
    if "shards/" in said:  # with workers: tests/unit/shards
        return False
    return said[0] not in NOT_RUN and " ".join(said[:2]) not in NOT_RUN


@pytest.mark.parametrize("example", [*filter(is_run, EXAMPLES)])
def test_examples_run(example, folder, tmp_path, monkeypatch):
    there = shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(there)
    said = arguments(example)
    for place, word in enumerate(said):  # patterns, as a shell does
        if "*" in word:
            said[place : place + 1] = sorted(map(str, Path().glob(word)))
    result = CliRunner().invoke(app, said, prog_name="openset")
    # `watch` says with 1 that something changed.
    assert result.exit_code in ({0, 1} if said[0] == "watch" else {0}), result.output
    assert result.output
