"""The commands as a user runs them."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import openset
from openset import Outputs, Rejector, Scores, evaluate
from openset.cli import app


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, -1, -1], 50)
    known = rng.normal(size=200) + (labels >= 0)
    predicted = np.where(rng.random(200) < 0.8, np.maximum(labels, 0), 1)
    groups = np.repeat(["", "", "near_by", "far"], 50)
    scores = Scores(labels=labels, predicted=predicted, known=known, groups=groups)
    return scores.save(tmp_path / "scores.npz")


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def openset_command(*arguments):
    command = [sys.executable, "-c", "from openset.cli import main; main()"]
    return subprocess.run(  # noqa: S603
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_table_shows_metrics_and_intervals(path):
    text = run("evaluate", path, "--threshold", 0.5)
    title = "100 known samples of 2 classes, 100 unknown, threshold 0.5"
    assert title in " ".join(text.split())
    result = evaluate(Scores.load(path), 0.5)
    for name in ("openauc", "osa", "overall_score", "f_score_best"):
        assert f"{result[name]:.4f}" in text
    interval = result.intervals["openauc"]
    assert f"{interval.low:.4f}–{interval.high:.4f}" in text


def test_several_files_are_sketched_as_one_set(path, tmp_path):
    whole = Scores.load(path)
    parts = [whole.take(slice(0, 120)), whole.take(slice(120, None))]
    files = [p.save(tmp_path / f"{i}.npz") for i, p in enumerate(parts)]
    text = run("evaluate", *files, "--sketch", "--threshold", 0.5, "--json")
    found = json.loads(text)
    assert (found["n_known"], found["n_unknown"]) == (100, 100)
    exact = evaluate(whole, 0.5)
    for key in ("openauc", "auroc", "osa", "f_score_micro_best", "ccr_at_fpr_0.1"):
        ends = found["brackets"][key]
        assert ends["low"] <= exact[key] <= ends["high"]
        assert ends["high"] - ends["low"] < 1e-3
    table = run("evaluate", *files, "--sketch")
    assert "at least" in table
    assert f"{found['brackets']['openauc']['low']:.6f}" in table
    refused = CliRunner().invoke(app, ["evaluate", *map(str, files)])
    assert refused.exit_code == 2
    both = CliRunner().invoke(app, ["evaluate", str(path), "--sketch", "--groups"])
    assert both.exit_code == 2


def test_groups_are_columns(path):
    text = run("evaluate", path, "--groups")
    assert "near_by" in text
    assert "far" in text


def test_json_is_the_evaluation(path):
    document = json.loads(run("evaluate", path, "--json", "--threshold", 0.5))
    result = evaluate(Scores.load(path), 0.5)
    assert document["metrics"]["openauc"]["value"] == result["openauc"]
    assert document["threshold"] == 0.5
    assert set(document["metrics"]) == set(result)
    by_group = json.loads(run("evaluate", path, "--json", "--groups"))
    assert set(by_group) == {"all", "near_by", "far"}


def test_csv_has_a_row_per_metric_and_full_precision(path):
    rows = list(csv.DictReader(io.StringIO(run("evaluate", path, "--csv"))))
    values = {row["metric"]: float(row["value"]) for row in rows}
    assert values == dict(evaluate(Scores.load(path)))


def test_latex_escapes_names_and_goes_to_a_file(path, tmp_path):
    out = tmp_path / "tables" / "table.tex"
    run("evaluate", path, "--latex", "--groups", "--out", out)
    text = out.read_text()
    assert text.startswith(r"\begin{tabular}{lrrr}")
    assert r"near\_by" in text
    assert text.count(r"\midrule") == 4


def test_a_level_is_written_with_its_digits(path):
    assert "99.9% interval" in run("evaluate", path, "--level", 0.999)
    assert "99.5% interval" in run("evaluate", path, "--level", 0.995, "--groups")


def test_a_group_called_all_is_not_taken_for_all(path, tmp_path):
    scores = Scores.load(path)
    groups = np.where(scores.groups == "far", "all", scores.groups)
    named = Scores(
        labels=scores.labels,
        predicted=scores.predicted,
        known=scores.known,
        groups=groups,
    ).save(tmp_path / "named.npz")
    found = json.loads(run("evaluate", named, "--json", "--groups"))
    counts = {name: document["n_unknown"] for name, document in found.items()}
    assert counts == {"all": 100, "group all": 50, "near_by": 50}


def test_groups_are_columns_or_clusters(path):
    words = ["evaluate", str(path), "--bootstrap", "10", "--clusters"]
    result = CliRunner().invoke(app, [*words, "--groups"])
    assert result.exit_code == 2
    assert "at most one of --groups and --clusters" in " ".join(result.output.split())
    alone = CliRunner().invoke(app, words)
    assert "got 1 known and 2 unknown groups" in str(alone.exception)


def test_names_of_files_are_not_markup(path, tmp_path):
    strange = tmp_path / "[bold]x.npz"
    strange.write_bytes(path.read_bytes())
    assert "[bold]x.npz: 100 known samples" in run("evaluate", strange)
    assert "[bold]y" in run("evaluate", path, "--csv", "--out", tmp_path / "[bold]y")


def test_bootstrap_adds_intervals(path):
    document = json.loads(run("evaluate", path, "--json", "--bootstrap", 50))
    assert "low" in document["metrics"]["fpr_at_tpr"]


@pytest.mark.parametrize("n", [1, -3])
def test_one_resample_makes_no_interval(path, n):
    result = CliRunner().invoke(app, ["evaluate", str(path), "--bootstrap", str(n)])
    assert f"bootstrap must be an integer >= 2, got {n}" in str(result.exception)
    assert "0 means no resampling" in str(result.exception)
    assert result.output == ""


def test_a_file_is_written_in_a_format_or_not_at_all(path, tmp_path):
    out = tmp_path / "table.txt"
    result = CliRunner().invoke(app, ["evaluate", str(path), "--out", str(out)])
    assert result.exit_code == 2
    assert not out.exists()
    assert run("evaluate", path, "--csv", "--out", out).startswith("wrote")
    assert out.read_text().startswith("set,metric")


def test_bad_input_is_one_line_and_exit_code_2(path, tmp_path):
    cases = {
        ("evaluate", tmp_path / "none.npz"): "no such file",
        ("evaluate", path, "--level", "2"): "level must be a number in (0, 1)",
        ("evaluate", path, "--threshold", "nan"): "threshold must be a number",
    }
    for arguments, words in cases.items():
        done = openset_command(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert words in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


def test_two_formats_at_once_are_refused(path):
    result = CliRunner().invoke(app, ["evaluate", str(path), "--json", "--csv"])
    assert result.exit_code == 2


def test_version_and_help():
    assert run("--version").strip() == f"openset {openset.__version__}"
    assert "Examples" in run("evaluate", "--help")


def test_the_demo_ends_with_a_rejector_that_works(tmp_path):
    text = " ".join(run("demo", "--out", tmp_path).split())
    for words in ("OpenAUC", "postmax", "Operational open-set accuracy"):
        assert words in text
    rejector = Rejector.load(tmp_path / "rejector")
    unknown = Outputs(logits=np.zeros((1, 6)), features=np.ones((1, 64)))
    assert rejector.predict(unknown).tolist() == [-1]


def test_the_demo_says_where_its_report_is(tmp_path):
    pytest.importorskip("jinja2", reason="the extra report")
    # a long path may be broken anywhere
    text = "".join(run("demo", "--out", tmp_path / "demo").split())
    assert f"{tmp_path / 'demo' / 'report.html'}:openitinabrowser" in text
    page = (tmp_path / "demo" / "report.html").read_text("utf-8")
    assert "maxlogit" in page
    assert "digit 7" in page
    found = openset.checks.run_folder(tmp_path / "demo" / "digits-study")
    assert not [finding.code for finding in found if finding.is_finding]


def test_a_foreign_table_is_read_by_its_own_names(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text(
        "y,predicted,energy\ncat,cat,-3\ndog,cat,-1\noos,cat,2\noos,dog,-2\n",
        encoding="utf-8",
    )
    words = ["evaluate", str(path), "--json", "--columns", "labels=y,known=energy"]
    found = CliRunner().invoke(
        app,
        [*words, "--higher-is-unknown", "--unknown-label", "oos"],
        catch_exceptions=False,
    )
    values = json.loads(found.stdout)
    expected = Scores(
        labels=[0, 1, -1, -1], predicted=[0, 0, 0, 1], known=[3, 1, -2, 2]
    )
    assert values["metrics"]["openauc"]["value"] == openset.metrics.openauc(expected)
    assert values["metrics"]["auroc"]["value"] == openset.metrics.auroc(expected)
    wrong = CliRunner().invoke(app, [*words[:-1], "labels"])
    assert wrong.exit_code == 2
    assert "--columns must be pairs such as" in " ".join(wrong.output.split())


def test_every_group_has_a_column_with_a_name(tmp_path):
    groups = ["", "", "", "all", "group all", "near"]
    Scores(
        labels=[0, 0, -1, -1, -1, -1],
        predicted=[0] * 6,
        known=[0.9, 0.8, 0.1, 0.2, 0.85, 0.95],
        groups=groups,
    ).save(tmp_path / "scores.csv")
    file = tmp_path / "scores.csv"
    text = run("evaluate", file, "--groups", "--metric", "auroc", "--json")
    found = {
        name: e["metrics"]["auroc"]["value"] for name, e in json.loads(text).items()
    }
    assert found == {
        "all": 0.625,
        "no group": 1.0,
        "group group all": 1.0,
        "group all": 0.5,
        "near": 0.0,
    }


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_metric_undefined_in_one_group_is_a_dash_there(tmp_path, first):
    other = "b" if first == "a" else "a"
    Scores(
        labels=[0, 0, -1, -1],
        predicted=[0, 1, 0, 0],
        known=[1.0, 2.0, 9.0, 0.5],  # only an unknown sample is accepted
        groups=["", "", first, other],
    ).save(tmp_path / "scores.csv")
    words = ("--groups", "--threshold", 5, "--metric", "scod_risk")
    text = run("evaluate", tmp_path / "scores.csv", *words)
    (line,) = (line for line in text.splitlines() if "SCOD" in line)
    shown = ["1.0000", "–"] if first == "a" else ["–", "1.0000"]
    assert line.split()[-3:] == ["1.0000", *shown]
    latex = run("evaluate", tmp_path / "scores.csv", *words, "--latex")
    assert f"{other} & -- " in latex


def test_a_narrow_interval_is_not_shown_as_zero(tmp_path):
    n = 200_000
    labels = np.repeat([0, -1, -1], [n, 1, 1])
    scores = Scores(
        labels=labels,
        predicted=(np.arange(n + 2) == 0).astype(int),
        known=np.linspace(1, 0, n + 2),
        groups=np.where(labels < 0, "a", ""),
    )
    file = scores.save(tmp_path / "scores.npz")
    text = run("evaluate", file, "--groups", "--metric", "accuracy")
    assert "±0.000" not in text
    assert "±1e-05" in text


def test_the_ends_of_a_bracket_are_rounded_outward(tmp_path):
    file = Scores(
        labels=[0, 0, 0, -1], predicted=[0, 0, 1, 0], known=[1.0, 2.0, 3.0, 0.5]
    ).save(tmp_path / "scores.npz")
    text = run("evaluate", file, "--sketch")
    (line,) = (line for line in text.splitlines() if "Accuracy  " in line)
    assert line.split()[-2:] == ["0.666666", "0.666667"]  # 2/3 is between them


def test_a_sketch_at_an_infinite_threshold_is_json(path):
    text = run("evaluate", path, "--sketch", "--threshold", "inf", "--json")

    def refuse(word):
        pytest.fail(f"{word} is no JSON")

    assert json.loads(text, parse_constant=refuse)["threshold"] == "inf"
