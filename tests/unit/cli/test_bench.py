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


def test_data_sets_are_read_from_the_root(study, tmp_path, monkeypatch):
    seen = []

    def run(*_, root, **__):
        seen.append(root)
        raise KeyboardInterrupt

    monkeypatch.setattr("openset.bench.run", run)
    call(study, "--out", tmp_path / "run", "--root", tmp_path)
    assert seen == [tmp_path]
    done = call(study, "--out", tmp_path / "run", "--root", tmp_path / "gone")
    assert "--root must be a folder" in str(done.exception)
    assert len(seen) == 1


def test_shards_say_how_they_are_merged(study, tmp_path):
    options = [study, "--out", tmp_path / "run", "--backend", "sequential"]
    done = call(*options, "--shard", "1/2")
    assert "3 of 3 cells" in done.stdout
    assert "run the command without --shard" in done.stdout
    assert "6 of 6 cells" in call(*options).stdout
    done = call(*options, "--shard", "2")
    assert "--shard must be I/N, such as 3/8, got '2'" in str(done.exception)


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
    assert "6 finished. Nothing is left to run." in again.stdout


def test_seeds_that_change_nothing_are_told(study, tmp_path):
    text = SMALL.replace(b"epochs: 5}", b"epochs: 5}, {kind: logistic}") + b"seeds: 2\n"
    study.write_bytes(text)
    done = call(study, "--out", tmp_path / "run", "--backend", "sequential")
    assert "logistic: all seeds give the same results" in done.stdout
    assert "mlp: all seeds" not in done.stdout


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
    assert "DecisionTreeClassifier, vim, repeat 0, seed 0: " in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--save", "table.xls", "bench: the ending of table.xls must be one of '.md'"),
        (
            "--jobs",
            0,
            "openset bench: --jobs must be an integer >= 1, got 0. -1 means all cores",
        ),
        ("--backend", "cloud", "openset bench: --backend must be one of 'loky'"),
    ],
)
def test_a_wrong_option_is_said_before_anything_runs(
    study, tmp_path, option, value, message
):
    out = tmp_path / "run"
    for dry in ([], ["--dry-run"]):
        done = call(study, "--out", out, option, value, *dry)
        assert message in str(done.exception)
        assert not out.exists()


def test_a_dry_run_names_the_protocol_that_cannot_be_drawn(study, tmp_path):
    study.write_bytes(SMALL.replace(b"unknown: 4", b"unknown: 5"))
    done = call(study, "--out", tmp_path / "run", "--dry-run")
    message = "bench: protocols[0]: holdout: n_known + n_unknown must be at most 10"
    assert message in str(done.exception)


def test_help_has_an_example_and_says_how_to_go_on():
    done = CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "100"})
    assert "openset bench study.yaml --out runs/study --dry-run" in done.stdout
    assert "finished cells are not repeated" in done.stdout


@pytest.mark.parametrize("name", ["study.yaml", "tables.yaml"])
def test_the_examples_are_valid_studies(name, tmp_path):
    from openset import bench  # noqa: PLC0415  # the extra of this test alone

    made = bench.plan(bench.read(EXAMPLES / name))
    assert len(made) == {"study.yaml": 24, "tables.yaml": 96}[name]
