"""Tables in narrow and wide terminals: everything can be read."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs, checks, protocols
from openset.cli import app
from openset.cli._console import OUT
from openset.protocols import Protocol
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


@pytest.mark.parametrize("words", [("protocols",), ("protocols", "list")])
def test_published_protocols_keep_their_numbers(show, words):
    text = show(*words)
    for name in protocols.names():
        for split in protocols.splits(name):
            p = protocols.published(name, split)
            assert f"{p.openness:.3f}" in text
    for header in ("known", "unknown", "openness", "distinct"):
        assert header in text
    assert re.search(r"Medium, Hard +100 +34 +0\.075", text)


@pytest.mark.parametrize(
    "name", [n for n in protocols.names() if not n.startswith("imagenet")]
)
def test_a_published_protocol_is_shown_to_its_last_class(show, name):
    for split in protocols.splits(name):
        p = protocols.published(name, split)
        text = joined(show("protocols", "show", name, split))
        assert ",".join(map(str, p.known)) in _without_margins(text, p)
        assert p.hash in text


def _without_margins(text, p):
    # Lines of a wrapped cell have nothing but spaces beside them; parts have names.
    return text.replace(p.source, "").replace(p.source_of("unknown"), "")


def test_lists_too_long_for_a_screen_say_where_the_rest_is(show):
    assert "--json" in show("protocols", "show", "imagenet-21k-p", "Easy")
    assert "--json" not in show("protocols", "show", "cub", "Easy")


def test_long_names_are_folded_not_cut(show, tmp_path):
    path = tmp_path / "p.json"
    Protocol(known=[f"known-{LONG}"], unknown=[f"unknown-{LONG}"]).save(path)
    text = joined(show("protocols", "show", path))
    assert f"known1known-{LONG}" in text
    assert f"unknown1unknown-{LONG}" in text
    several = tmp_path / "draws.json"
    protocols.holdout([f"{i}-{LONG}" for i in range(4)], 2, 2, repeats=2).save(several)
    show("protocols", "show", several)


def test_data_sets_keep_names_and_numbers(show, tmp_path):
    from openset.datasets.catalogue import CATALOGUE  # noqa: PLC0415

    text = show("datasets", "--root", tmp_path)
    for source in CATALOGUE.values():
        sizes = [n for n in (source.n_classes, source.n_samples) if n is not None]
        numbers = "".join(f" +{size:,}" for size in sizes)
        assert re.search(rf"{re.escape(source.name)}{numbers} ", text)
    for title in ("Images", "Texts", "Tables of numbers"):
        assert title in text


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
