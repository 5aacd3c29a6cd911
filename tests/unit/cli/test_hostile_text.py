"""Names from anywhere: none is acted on by a terminal or a spreadsheet."""

import csv
import io

import numpy as np
import pytest
from rich.table import Table
from typer.testing import CliRunner

from openset import Outputs, Rejector, Scores, detectors
from openset._safe_text import csv_cell, visible
from openset.cli import app
from openset.cli._console import PlainConsole
from tests.rejector.data import drawn

ESCAPE = "\x1b]0;owned\x07"
FORMULA = '=HYPERLINK("http://x","y")'
CLASSES = (f"{ESCAPE}cat", "@SUM(A1)", "+1+1", "plain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    known = drawn(200, seed=2, classes=CLASSES)
    negatives = drawn(200, seed=3, unknown=True, classes=CLASSES)
    kinds = np.repeat([f"{ESCAPE}near", "-2+3"], 100)
    grouped = Outputs(
        logits=negatives.logits,
        features=negatives.features,
        labels=negatives.labels,
        groups=kinds,
        classes=CLASSES,
    )
    known.save(folder / "val.npz")
    grouped.save(folder / "negatives.npz")
    fitted = detectors.MSP().fit()
    rejector = Rejector.calibrate(
        fitted, known=known, surrogate=grouped, accept_risk=True
    )
    rejector.save(folder / "rejector")
    rows = drawn(40, seed=5, labelled=False, classes=CLASSES)
    ids = [ESCAPE, FORMULA, "\tx", "-7", *map(str, range(36))]
    groups = np.repeat(["-2+3", f"{ESCAPE}far"], 20)
    Outputs(logits=rows.logits, ids=np.array(ids), groups=groups, classes=CLASSES).save(
        folder / "new.npz"
    )
    labels = np.where(np.arange(60) % 2, 0, -1)
    scores = Scores(
        labels=labels,
        predicted=np.zeros(60, int),
        known=np.arange(60.0),
        groups=np.where(labels < 0, f"{ESCAPE}g", ""),
    )
    scores.save(folder / f"a{ESCAPE}.npz")
    scores.save(folder / "=b.npz")
    return folder


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


@pytest.mark.parametrize("extra", [[], ["--csv"]])
def test_predict_sends_no_control_characters(folder, extra):
    done = run("predict", folder / "rejector", folder / "new.npz", *extra)
    assert done.exit_code == 0
    assert "owned" in done.stdout  # the rest of the name is shown
    assert not {"\x1b", "\x07"} & {*done.output}


def test_other_commands_send_none_either(folder, tmp_path):
    name = folder / f"a{ESCAPE}.npz"
    done = [
        run(
            *("calibrate", "--known", folder / "val.npz", "-d", "msp"),
            *("--surrogate", folder / "negatives.npz", "--accept-risk"),
            *("--out", tmp_path / f"r{ESCAPE}"),
        ),
        run("evaluate", name),
        run("evaluate", name, "--groups"),
        run("evaluate", name, "--csv"),
        run("evaluate", name, "--latex"),
        run("compare", name, folder / "=b.npz"),
        run("compare", name, folder / "=b.npz", "--csv"),
        run("watch", folder / "rejector", "--reference", name, "--all", name),
    ]
    for one in done:
        assert one.exit_code in {0, 1}, one.output
        assert not {"\x1b", "\x07"} & {*one.output}
    assert any("owned" in one.output for one in done)


def test_formulas_in_text_columns_are_defused(folder, tmp_path):
    out = tmp_path / "x.csv"
    run("predict", folder / "rejector", folder / "new.npz", "--out", out)
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["id"] for row in rows[1:5]] == [f"'{FORMULA}", "'\tx", "-7", "0"]
    assert rows[0]["group"] == "'-2+3"
    names = {row["name"] for row in rows} - {"unknown", "plain"}
    assert names <= {f"{visible(ESCAPE)}cat", "'@SUM(A1)", "'+1+1"}
    assert names
    assert {row["decision"] for row in rows} >= {"-1"}  # a number stays one
    for row in rows:
        float(row["margin"])  # negative ones as well


def test_what_is_a_number_stays_a_number():
    for value in (-1, -1.5, float("-inf"), "-1e-3", "+2", None):
        assert csv_cell(value) is value


def test_a_console_shows_what_it_would_have_sent():
    stream = io.StringIO()
    console = PlainConsole(file=stream, force_terminal=True, width=60)
    table = Table("a\x1b[2J")
    table.add_row("[red]red[/red] b\x9b31m \u202ereversed")
    console.print(table, "\x07")
    text = stream.getvalue()
    assert "\x1b[31mred" in text  # our own colours are sent
    assert "\x1b[2J" not in text
    assert not {"\x9b", "\u202e", "\x07"} & {*text}


def test_brackets_in_the_name_of_a_result_are_printed(folder):
    given = ("--known", folder / "val.npz", "--surrogate", folder / "negatives.npz")
    out = folder / "rejector[a]"
    result = run("calibrate", *given, "-d", "msp", "--accept-risk", "--out", out)
    assert out.name in "".join(result.output.split())
