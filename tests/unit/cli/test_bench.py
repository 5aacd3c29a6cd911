"""`openset bench`: plan, run, table, exit codes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from openset import runs
from openset.cli import app
from tests.unit.bench.studies import SMALL

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def call(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_bytes(SMALL)
    return path


def test_a_dry_run_prints_the_plan_and_writes_nothing(study, tmp_path):
    done = call(study, "--out", tmp_path / "run", "--dry-run")
    assert done.exit_code == 0
    assert "6 cells on 2 networks, 0 finished" in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_run_prints_the_table_and_saves_it(study, tmp_path):
    out = tmp_path / "run"
    options = ["--out", out, "--backend", "sequential", "--save", tmp_path / "t.md"]
    done = call(study, *options)
    assert done.exit_code == 0
    assert "knn(k=3)" in done.stdout
    assert "6 of 6 cells" in done.stdout
    assert (out / "study.yaml").read_bytes() == SMALL
    assert len(runs.results(out).where(metric="openauc")) == 6
    assert "knn(k=3)" in (tmp_path / "t.md").read_text()
    again = call(study, "--out", out, "--dry-run")
    assert "6 finished. About 0 seconds" in again.stdout


def test_a_failing_cell_makes_the_exit_code_one(study, tmp_path):
    text = SMALL.replace(
        b"{kind: mlp, hidden: 8, epochs: 5}",
        b"{kind: sklearn, estimator: sklearn.tree.DecisionTreeClassifier}",
    ).replace(b"[msp,", b"[vim, msp,")
    study.write_bytes(text)
    done = call(study, "--out", tmp_path / "run", "--backend", "sequential")
    assert done.exit_code == 1
    assert "2 failed" in done.stdout
    assert "outputs must have head" in done.stderr


def test_help_has_an_example_and_says_how_to_go_on():
    done = CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "100"})
    assert "openset bench study.yaml --out runs/study --dry-run" in done.stdout
    assert "finished cells are not repeated" in done.stdout


@pytest.mark.parametrize("name", ["study.yaml", "packaged.yaml"])
def test_the_examples_are_valid_studies(name, tmp_path):
    from openset import bench  # noqa: PLC0415  # the extra of this test alone

    made = bench.plan(bench.read(EXAMPLES / name))
    assert len(made) == {"study.yaml": 24, "packaged.yaml": 144}[name]
