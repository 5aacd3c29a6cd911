"""The summary claims what the tests of `openset.stats` allow, and no more."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from openset import runs, stats
from tests.report.studies import cell, render, write_study

pytest.importorskip("jinja2", reason="the extra report")


def lone_rows(folder, table, *, metric="auroc", protocol="p", **said):
    """Write cells with one number each; return the text of the page."""
    for name, values in table.items():
        for seed, value in enumerate(values):
            key = {"protocol": protocol, "model": "m", "method": "", "detector": name}
            row = {"metric": metric, "value": value, "n": 9}
            runs.Cell(key=key | {"seed": seed}, rows=[row]).save(folder)
    (folder / "study.json").write_text(json.dumps({"headline": metric, **said}))
    return render(folder).text


def test_the_lead_over_runs_is_tested_by_stats(tmp_path):
    folder = write_study(tmp_path, protocols=("digits",), seeds=4)
    text = render(folder).text
    assert "4 runs of each" in text
    assert "standard deviation over 4 seeds of one draw of the classes" in text
    found = stats.paired_t(runs.results(folder), "openauc", pool=True)
    best = max(found, key=lambda one: one.mean_a).a
    tests = stats.paired_t(runs.results(folder), "openauc", against=best, pool=True)
    is_clear = all(one.p_corrected < 0.05 for one in tests)
    assert ("The lead over every other method is significant" in text) == is_clear


def test_splits_of_one_network_are_one_run(tmp_path):
    for split in range(5):
        for name, gap in (("a", 1.0), ("b", 2.0)):
            made, test, _ = cell(split, name, "digits", gap=gap)
            key = made.key | {"seed": 0, "split": split}
            replace(made, key=key).save(tmp_path, scores=test)
    text = render(tmp_path).text
    assert "significant" not in text
    assert "One run each: no standard deviation." in text


def test_a_lead_is_claimed_only_over_methods_with_the_same_runs(tmp_path):
    table = {"a": [0.90, 0.91, 0.93, 0.92], "b": [0.70, 0.72, 0.71, 0.70]}
    text = lone_rows(tmp_path / "even", table)
    assert "The lead over every other method is significant" in text
    text = lone_rows(tmp_path / "uneven", table | {"c": [0.9, 0.91]})
    assert "The lead over every other method that can be tested is sig" in text
    text = lone_rows(tmp_path / "one", {"a": [0.9], "b": [0.8]})
    assert "a is best with 0.9000.Next is b" in text.replace("\n", "")
    assert "The lead over" not in text
    text = lone_rows(tmp_path / "same", {"a": [0.9] * 3, "b": [0.8] * 3})
    assert "The lead over" not in text  # the same difference three times is no test
    table = {"a": [0.90, 0.91, 0.93, 0.92], "b": [0.91, 0.90, 0.92, 0.91]}
    text = lone_rows(tmp_path / "near", table)
    assert "The lead over b is not significant" in text


def test_over_several_problems_lower_is_better_where_it_is(tmp_path):
    """No method has both problems, so that means decide."""
    for (name, protocol), value in {("a", "p"): 0.9, ("b", "q"): 0.2}.items():
        text = lone_rows(
            tmp_path, {name: [value]}, metric="fpr_at_tpr", protocol=protocol
        )
    assert "by FPR95, known positive, b is best: 0.2000 on average" in text


def test_a_metric_that_is_not_installed_is_named_by_the_study(tmp_path):
    named = {"nll": {"label": "NLL", "better": "lower"}}
    text = lone_rows(tmp_path, {"a": [0.5], "b": [0.2]}, metric="nll", metrics=named)
    assert "By NLL, b is best with 0.2000." in text


def test_a_method_of_all_problems_comes_before_one_of_some(tmp_path):
    lone_rows(tmp_path, {"a": [0.8], "b": [0.9]})
    text = lone_rows(tmp_path, {"a": [0.7]}, protocol="q")
    assert "a is best: 0.7500 on average" in text


def test_problems_weigh_the_same_and_ranks_are_those_of_stats(tmp_path):
    rng = np.random.default_rng(0)
    for i, protocol in enumerate("pqrs"):
        table = {n: rng.normal(0.5 + at / 9, 0.1, 1 + i) for at, n in enumerate("abc")}
        text = lone_rows(tmp_path, table, protocol=protocol)
    board = stats.leaderboard(runs.results(tmp_path), "auroc")
    best = next(iter(board.ranks.mean))
    means = [board.entries[best, one].mean for one in board.columns]
    said = f"{best} is best: {np.mean(means):.4f} on average, mean rank"
    assert f"{said} {board.ranks.mean[best]:.2f}." in text


def found(folder, *, ids=False, turn=False, without=""):
    """Report two detectors on one test set; return what is said of the lead."""
    for name, gap in (("a", 2.6), ("b", 2.0)):
        made, test, _ = cell(1, name, "digits", gap=gap)
        test = replace(test, ids=np.arange(len(test)) if ids else None)
        rows = np.arange(len(test))
        if turn and name == "b":  # within each class: the labels stay
            rows[np.argsort(test.labels, kind="stable")] = np.lexsort(
                (-rows, test.labels)
            )
        made.save(folder, scores=None if name == without else test.take(rows))
    text = render(folder).text
    return re.findall(r"On the same samples the lead[^)]*\)|seem to be in diff", text)


def test_the_lead_is_tested_on_the_same_samples_or_not_at_all(tmp_path):
    (wanted,) = found(tmp_path / "plain")
    (a, b) = (cell(1, name, "digits", gap=g)[1] for name, g in (("a", 2.6), ("b", 2.0)))
    test = stats.compare(a, b)
    assert f"is {test.difference:.4f} (95 % interval" in wanted
    assert f"p = {test.p_value:.2g})" in wanted
    assert found(tmp_path / "ids", ids=True, turn=True) == [wanted]
    assert found(tmp_path / "doubt", turn=True) == ["seem to be in diff"]
    assert found(tmp_path / "lone", without="b") == []
