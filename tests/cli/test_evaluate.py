"""`openset evaluate`."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from openset import Scores, evaluate, metrics, thresholds
from openset.metrics import by_group

SCORES, CALIBRATION = "test/scores-knn.npz", "calibration/scores-knn.npz"


def test_the_table_has_every_metric_with_its_interval(run):
    text = run("evaluate", SCORES, "--threshold", -1)
    found = evaluate(Scores.load(SCORES), -1)
    for row in found.rows():
        assert f"{row['value']:.4f}" in text
        assert row["low"] is None or f"{row['low']:.4f}–{row['high']:.4f}" in text
        assert metrics.get(row["metric"]).label in text


def test_json_is_that_of_the_library(run, run_json):
    words = "evaluate", SCORES, "--threshold", -1, "--bootstrap", 20, "--level", 0.9
    wanted = evaluate(Scores.load(SCORES), -1, 0.9, bootstrap=20)
    assert run_json(*words) == json.loads(wanted.to_json())
    found = run_json("evaluate", SCORES, "--groups")
    assert {*found} == {"all", "far", "near"}
    wanted = by_group(Scores.load(SCORES))["far"]
    assert found["far"] == json.loads(wanted.to_json())


def test_a_calibration_gives_operational_accuracy_with_its_interval(run, run_json):
    words = "evaluate", SCORES, "--calibration", CALIBRATION
    done = thresholds.operate(Scores.load(CALIBRATION), Scores.load(SCORES))
    found = run_json(*words)
    assert found["operation"] == done.to_dict()
    assert found["threshold"] == done.threshold.value
    assert f"{done.oosa:.4f}  {done.interval.low:.4f}–" in run(*words)
    text = run(*words, "--groups", "--metric", "auroc")
    for row in done.groups:
        assert f"{row['oosa']:.4f} ±" in text
    text = run(*words, "--alpha", 0.7)
    assert "alpha=0.7" in text


def test_files_have_full_precision_or_percent(run, tmp_path):
    run("evaluate", SCORES, "--out", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as stream:
        values = {r["metric"]: float(r["value"]) for r in csv.DictReader(stream)}
    assert values == dict(evaluate(Scores.load(SCORES)))
    run("evaluate", SCORES, "--groups", "--metric", "auroc", "-o", tmp_path / "x.tex")
    text = (tmp_path / "x.tex").read_text()
    value = by_group(Scores.load(SCORES))["near"]["auroc"]
    assert rf"near & {100 * value:.1f} $\pm$" in text
    assert r"AUROC (\%) $\uparrow$" in text


def test_several_files_are_sketched_as_one_set(run, run_json, tmp_path):
    whole = Scores.load(SCORES)
    files = [
        whole.take(rows).save(tmp_path / f"{i}.npz")
        for i, rows in enumerate((slice(0, 120), slice(120, None)))
    ]
    found = run_json("evaluate", *files, "--sketch", "--threshold", -1)
    assert found["n_known"] == whole.n_known
    for key, value in evaluate(whole, -1).items():
        if key in found["brackets"]:
            ends = found["brackets"][key]
            assert ends["low"] <= value <= ends["high"]
    low = str(found["brackets"]["openauc"]["low"])
    assert low[:7] in run("evaluate", *files, "--sketch")


@pytest.mark.parametrize("name", ["all", ""])
def test_a_group_takes_no_other_name(name, run_json, tmp_path):
    scores = Scores.load(SCORES)
    groups = np.where(scores.groups == "far", name, scores.groups)
    renamed = replace(scores, groups=groups).save(tmp_path / "named.npz")
    found = run_json("evaluate", renamed, "--groups")
    assert {*found} == {"all", "near", "group all" if name else "no group"}
    assert found["all"]["n_unknown"] == scores.n_unknown


def test_files_of_other_programs(run_json, tmp_path):
    rows = ["y,predicted,energy", "cat,cat,-3", "dog,cat,-1", "oos,cat,2", "oos,dog,-2"]
    (tmp_path / "theirs.csv").write_text("\n".join(rows))
    words = "--columns", "labels=y,known=energy", "--unknown-label", "oos"
    found = run_json("evaluate", tmp_path / "theirs.csv", *words, "--higher-is-unknown")
    assert found["metrics"]["auroc"]["value"] == 0.75
