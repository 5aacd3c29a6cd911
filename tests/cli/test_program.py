"""What holds for all commands: help, its examples, Ctrl-C."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from openset import Outputs, Rejector, _io, detectors, protocols
from openset.cli import app
from openset.outputs import replaced

# Examples that need networks, data sets, extras or a server; each has tests elsewhere.
NOT_RUN = ("bench", "check", "demo", "export", "extract", "report", "reproduce")
NOT_RUN += ("serve", "train", "protocols outlier", "watch rejector/ traffic/")
NOT_RUN += ("calibrate --run", "compare runs/", "evaluate scores-monday.npz")
PLACES = {  # names in examples, for files of the tests
    "scores.npz": "test/scores-msp.npz",
    "scores.csv": "seeds/msp_0.csv",
    "calibration-scores.npz": "calibration/scores-msp.npz",
    "scores": "test",
    "negatives.npz": "far.npz",
    **{f"{name}.npz": "test.npz" for name in ("new", "today", "monday", "tuesday")},
    "lastweek.npz": "calibration.npz",
}
THEIRS = "y,predicted,energy\ncat,cat,-3\ndog,cat,-1\noos,cat,2\noos,dog,-2\n"


def pages(command, words=()):
    """Yield every command of a group, and of the groups in it, by its words."""
    yield words, command
    for name, part in getattr(command, "commands", {}).items():
        yield from pages(part, (*words, name))


PAGES = dict(pages(get_command(app)))


def examples(words):
    """Return the examples of a page, each as the words after ``openset``."""
    lines = (line.strip() for line in PAGES[words].help.splitlines())
    typed = [
        shlex.split(one) for one in lines if one.startswith(("openset ", "torchrun"))
    ]
    found = [words[words.index("openset") + 1 :] for words in typed]
    return [one[: one.index("||")] if "||" in one else one for one in found]


EXAMPLES = [one for words in PAGES for one in examples(words) if one]


@pytest.mark.parametrize("words", [words for words in PAGES if words])
def test_every_page_has_an_example_and_says_what_every_parameter_is(words):
    assert list(words) in [one[: len(words)] for one in examples(words)]
    params = [param for param in PAGES[words].params if param.name != "help"]
    assert all(param.help for param in params)
    shown = CliRunner().invoke(app, [*words, "--help"]).output
    begun = re.findall(r"\n  (?:openset|torchrun) ", shown)  # a line each
    assert len(begun) == len(examples(words))


@pytest.mark.parametrize("example", EXAMPLES, ids=" ".join)
def test_examples_have_arguments_and_options_that_exist(example):
    command, rest = get_command(app), example
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    assert command is not get_command(app)
    if not hasattr(command, "commands"):
        command.make_context("openset", list(rest))  # raises what a user would read


@pytest.fixture(scope="module")
def here(files, tmp_path_factory):
    """Make the files that examples name."""
    here = shutil.copytree(files, tmp_path_factory.mktemp("examples") / "here")
    for name, place in PLACES.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.exists() or path.symlink_to(files / place)
    for name in ("msp", "knn", "energy"):
        for part in ("test", "calibration"):
            (here / part / f"scores-{name}.npz").rename(here / part / f"{name}.npz")
    (here / "theirs.csv").write_text(THEIRS, encoding="utf-8")
    protocols.holdout(10, 6, 4, repeats=2).save(here / "draws.json")
    return here


def is_run(example):
    is_elsewhere = " ".join(example).startswith(NOT_RUN) or "runs/study" in example
    return not is_elsewhere and "shards/" not in example


@pytest.mark.parametrize("example", [*filter(is_run, EXAMPLES)], ids=" ".join)
def test_examples_run(example, here, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(here, tmp_path / "here"))
    words = [
        w for word in example for w in sorted(map(str, Path().glob(word))) or [word]
    ]
    words = words if any("*" in word for word in example) else example
    result = CliRunner().invoke(app, words, prog_name="openset")
    # `watch` says with 1 that something changed.
    assert result.exit_code in ({0, 1} if "watch" in words else {0}), result.output
    assert result.output


def test_ctrl_c_leaves_the_old_file(files, tmp_path, monkeypatch):
    """Interrupt while the file is being written: the old one stays, none is added."""
    out = tmp_path / "table.json"
    out.write_text("old", encoding="utf-8")

    def stopped(path, writer):
        def interrupted(stream):
            stream.write(b"half")
            raise KeyboardInterrupt

        write(path, interrupted)

    write = _io.write
    monkeypatch.setattr(_io, "write", stopped)
    words = "evaluate", str(files / "test/scores-msp.npz"), "--out", str(out)
    assert CliRunner().invoke(app, words).exit_code == 130
    assert out.read_text(encoding="utf-8") == "old"
    assert [*tmp_path.iterdir()] == [out]


def test_letters_that_the_terminal_does_not_have_are_no_error(files, tmp_path):
    named = replaced(Outputs.load(files / "test.npz"), classes=("ant", "bær", "cat ☃"))
    named.save(tmp_path / "new.npz")
    Rejector.calibrate(detectors.MaxLogit().fit(), known=named).save(tmp_path / "r")
    words = [sys.executable, "-m", "openset", "predict", "r", "new.npz"]
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    said = subprocess.check_output(words, cwd=tmp_path, env=ascii_only, text=True)  # noqa: S603  # our own
    assert r"b\xe6r" in said
