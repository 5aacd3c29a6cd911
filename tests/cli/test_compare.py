"""`openset compare`."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from openset import Scores, evaluate, stats, thresholds
from openset.results import Result, Results

FILES = [f"test/scores-{name}.npz" for name in ("msp", "knn", "energy")]
PATTERN = "seeds/{method}_{seed}.csv"


def test_every_method_is_a_row_and_every_pair_is_tested(run, run_json):
    text = run("compare", *FILES)
    for path in FILES:
        found = evaluate(Scores.load(path))
        for key in stats.METRICS:
            assert f"{found[key]:.4f}" in text
    found = run_json("compare", *FILES)
    a, b = Scores.load(FILES[0]), Scores.load(FILES[1])
    assert found["evaluations"]["msp"] == json.loads(evaluate(a).to_json())
    (test,) = [t for t in found["tests"] if (t["a"], t["b"]) == ("msp", "knn")]
    wanted = stats.compare(a, b)
    assert (test["difference"], test["p_value"]) == (wanted.difference, wanted.p_value)
    p_values = stats.adjust([one["p_value"] for one in found["tests"]])
    assert [one["p_corrected"] for one in found["tests"]] == p_values
    against = run_json("compare", *FILES, "--against", "knn")["tests"]
    assert {(t["a"], t["b"]) for t in against} == {("knn", "msp"), ("knn", "energy")}


def test_operational_accuracy_is_compared_at_calibrated_thresholds(run, run_json):
    words = "compare", *FILES[:2], "--calibration", "calibration/scores-{method}.npz"
    done = [
        thresholds.operate(
            Scores.load(path.replace("test", "calibration")), Scores.load(path)
        )
        for path in FILES[:2]
    ]
    found = run_json(*words)
    assert found["evaluations"]["msp"]["operation"] == done[0].to_dict()
    (test,) = [one for one in found["tests"] if one["metric"] == "oosa"]
    assert abs(test["difference"]) == pytest.approx(abs(done[0].oosa - done[1].oosa))
    text = run(*words)
    assert all(f"{one.oosa:.4f} ±" in text for one in done)


def test_a_latex_table_has_methods_as_rows_in_percent(run, tmp_path):
    out = tmp_path / "x.tex"
    run("compare", *FILES, "--metric", "auroc", "--out", out)
    lines = out.read_text().splitlines()
    values = [100 * evaluate(Scores.load(path))["auroc"] for path in FILES]
    assert [line.split(" & ")[0] for line in lines[4:7]] == ["msp", "knn", "energy"]
    assert lines[4 + int(np.argmax(values))].count("textbf") == 1
    assert f"{values[0]:.1f}" in lines[4]


def test_seeds_are_repeats_not_rivals(run, run_json, tmp_path):
    results = stats.read_results(PATTERN)
    found = run_json("compare", PATTERN)
    board = stats.leaderboard(results, list(stats.METRICS))
    assert found["leaderboards"] == json.loads(json.dumps(board.records()))
    assert found["tests"] == [*map(asdict, stats.paired_t(results, "openauc"))]
    text = run("compare", PATTERN, "--metric", "auroc")
    assert f"{board.entries['knn', 'auroc'].mean:.3f} ± " in text
    assert "4 seeds" in text
    run("compare", PATTERN, "--out", tmp_path / "x.tex")
    assert (tmp_path / "x.tex").read_text() == board.to_latex()


def test_a_study_is_compared_by_paired_t_tests(run, run_json, tmp_path):
    rng = np.random.default_rng(1)
    results = Results(
        Result(protocol=p, repeat=i, detector=d, metric="oosa", value=v + e)
        for p in ("near", "far")
        for d, v in (("postmax", 0.8), ("msp", 0.7), ("scale", 0.6))
        for i, e in enumerate(rng.normal(0, 0.01, 5))
    )
    path = results.save(tmp_path / "results.csv")
    words = "--metric", "oosa", "--against", "postmax", "--correction", "bonferroni"
    found = run_json("compare", path, *words)["tests"]
    tests = stats.paired_t(results, "oosa", against="postmax", correction="bonferroni")
    assert found == [*map(asdict, tests)]
    assert "far" in run("compare", path, *words)
