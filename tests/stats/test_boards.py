"""Leaderboards: means, spread, marks, tests, ranks, and their formats."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ttest_rel

from openset import metrics, runs
from openset.results import Result, Results
from openset.stats import adjust, direction, leaderboard

VALUES = {"knn": [0.9, 0.92, 0.91], "msp": [0.7, 0.74, 0.71], "vim": [0.9, 0.91, 0.925]}


def small(values=VALUES, metrics=("auroc", "fpr_at_tpr"), protocols=("",)):
    """Three runs of each detector; the second metric is one minus the first."""
    return Results(
        Result(
            protocol=p, detector=name, seed=seed, metric=metric, value=abs(i - value)
        )
        for p in protocols
        for name, row in values.items()
        for seed, value in enumerate(row)
        for i, metric in enumerate(metrics)
    )


def shown(board, **options):
    console = Console(width=110, file=io.StringIO(), **options)
    console.print(board)
    return console.file.getvalue()


def test_a_table_looks_like_this_in_every_format(tmp_path):
    board = leaderboard(small(), "auroc")
    assert board.to_markdown().splitlines() == [
        "| | AUROC ↑ | mean rank |",
        "|---|---|---|",
        "| knn | *0.910 ± 0.010* | 1.50 |",
        "| vim | **0.912 ± 0.013** | 1.50 |",
        "| msp | 0.717 ± 0.021† | 3.00 |",
        "",
        " ".join(board.notes),
    ]
    assert board.to_latex().splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & AUROC (\%) $\uparrow$ & mean rank \\",
        r"\midrule",
        r"knn & \underline{91.0 $\pm$ 1.0} & 1.50 \\",
        r"vim & \textbf{91.2 $\pm$ 1.3} & 1.50 \\",
        r"msp & 71.7 $\pm$ 2.1$^\dagger$ & 3.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"% Needs \usepackage{booktabs}.",
        *(f"% {note}" for note in board.notes),
    ]
    assert [line.rstrip() for line in shown(board).splitlines()][:7] == [
        "AUROC",
        "",
        "             AUROC ↑  mean rank",
        " ──────────────────────────────",
        " knn   0.910 ± 0.010       1.50",
        " vim   0.912 ± 0.013       1.50",
        " msp  0.717 ± 0.021†       3.00",
    ]
    assert board.notes == (
        "Mean ± standard deviation over 3 seeds of one draw of the classes.",
        "† worse than the best of its column (paired t-test over the same runs, holm "
        "correction, level 0.95).",
        "Mean ranks over 3 runs: Friedman p = 0.086; ranks differ significantly if at "
        "least 1.91 apart (Nemenyi, level 0.95).",
    )
    styled = shown(board, force_terminal=True)
    assert "\x1b[1;32m0.912 ± 0.013" in styled  # bold and green
    assert "\x1b[4m0.910 ± 0.010" in styled  # underlined
    kinds = {".csv": board.to_csv, ".tex": board.to_latex, ".md": board.to_markdown}
    for ending, text in kinds.items():
        assert board.save(tmp_path / f"t{ending}").read_text() == text()
    with pytest.raises(ValueError, match=r"must be one of '\.md'"):
        board.save(tmp_path / "t.doc")


@pytest.mark.parametrize("metric", ["auroc", "fpr_at_tpr"])
def test_entries_are_means_deviations_places_and_tests(metric):
    """A metric where lower is better gives the same order, places and tests."""
    board = leaderboard(small(protocols="pq"), metric)
    assert board.columns == ("p", "q")
    parsed = csv.DictReader(io.StringIO(board.to_csv()))
    for record, line in zip(board.records(), parsed, strict=True):
        values = np.array(VALUES[record["method"]])
        values = values if metric == "auroc" else 1 - values
        assert float(line["mean"]) == record["mean"] == pytest.approx(values.mean())
        assert record["spread"] == pytest.approx(values.std(ddof=1))
        assert record["place"] == {"vim": 1, "knn": 2, "msp": 0}[record["method"]]
        assert (record["n"], record["metric"]) == (3, metric)
    raw = [ttest_rel(VALUES["vim"], VALUES[name]).pvalue for name in ("knn", "msp")]
    found = [board.entries[name, "p"].p_value for name in ("knn", "msp", "vim")]
    assert found == [*map(pytest.approx, adjust(raw, "holm")), None]
    assert board.ranks.n == 2
    assert board.rows == tuple(board.ranks.mean)


@pytest.mark.parametrize("names", [("auroc", "fpr_at_tpr"), ("fpr_at_tpr", "auroc")])
def test_metrics_stand_in_the_order_asked_for_and_the_first_leads(names):
    values = {"msp": (0.9, 0.5), "knn": (0.8, 0.4)}  # AUROC and FPR disagree
    rows = [
        Result(detector=detector, metric=metric, value=value)
        for detector, both in values.items()
        for metric, value in zip(("auroc", "fpr_at_tpr"), both, strict=True)
    ]
    board = leaderboard(Results(rows), names)
    assert board.columns == names
    assert board.rows[0] == ("msp" if names[0] == "auroc" else "knn")
    assert board.notes == ("One run each: no standard deviation.",)
    assert {record["mean_rank"] for record in board.records()} == {None}


def test_methods_with_other_runs_than_the_best_are_not_tested():
    """A paired test needs pairs: neither fewer runs nor as many others will do."""
    whole = [*small(metrics=["auroc"])]
    is_last = [(row.detector, row.seed) == ("msp", 2) for row in whole]
    fewer = [row for row, last in zip(whole, is_last, strict=True) if not last]
    moved = [
        replace(r, seed=7) if x else r for r, x in zip(whole, is_last, strict=True)
    ]
    for rows in (fewer, moved):
        board = leaderboard(Results(rows), "auroc")
        found = {row: board.entries[row, "auroc"].p_value for row in board.rows}
        assert (found["msp"], found["vim"]) == (None, None)
        assert found["knn"] is not None
        assert "means are not comparable" in " ".join(board.notes)
        assert board.ranks.n == 2  # over the runs that all have


def test_a_missing_cell_leaves_a_gap_and_no_test():
    rows = [
        r for r in small(protocols="pq") if (r.detector, r.protocol) != ("msp", "q")
    ]
    board = leaderboard(Results(rows), "auroc")
    assert ("msp", "q") not in board.entries
    assert "–" in board.to_markdown()
    assert "--" in board.to_latex()
    assert board.ranks is None  # only one protocol has all methods


def test_a_direction_is_never_guessed():
    for unknown in ("nll", "auroc_gap", "accuracy_loss"):
        words = rf"the direction of '{unknown}' .*better=\{{'{unknown}': 'lower'"
        with pytest.raises(ValueError, match=words):
            direction(unknown)
    with pytest.raises(ValueError, match="got neither"):
        direction("imbalance_ratio")
    assert (direction("auroc"), direction("fpr_at_tpr")) == ("higher", "lower")
    values = {"msp": [0.3, 0.4], "knn": [0.2, 0.35]}
    results = small(values, metrics=["nll"])
    with pytest.raises(ValueError, match="the direction of 'nll'"):
        leaderboard(results, "nll")
    for better, first in (("lower", "knn"), ("higher", "msp")):
        board = leaderboard(Results(results, better={"nll": better}), "nll")
        assert board.rows[0] == first
        assert "(%)" not in board.to_latex()  # it may be any number


def test_the_direction_of_a_metric_comes_from_its_study(tmp_path):
    for name, value in (("a", 2.0), ("b", 1.0)):
        key = {"protocol": "p", "model": "m", "method": "", "detector": name}
        row = {"metric": "nll", "value": value, "n": 9}
        runs.Cell(key=key, rows=[row]).save(tmp_path)
    said = {"metrics": {"nll": {"label": "NLL", "better": "lower"}}}
    (tmp_path / "study.json").write_text(json.dumps(said))
    board = leaderboard(runs.results(tmp_path), "nll")
    assert board.rows == ("b", "a")


def test_methods_are_named_by_what_varies():
    rows = [
        Result(model=m, method=t, detector=d, metric="auroc", value=0.5)
        for m, t in (("a", "softmax"), ("b", "openauc"))
        for d in ("msp", "knn")
    ]
    wanted = {
        f"{m} · {d}" for m in ("a · softmax", "b · openauc") for d in ("msp", "knn")
    }
    assert set(leaderboard(Results(rows), "auroc").rows) == wanted
    board = leaderboard(Results(rows[:1]), "auroc")
    assert (board.rows, board.ranks) == (("msp",), None)


def test_names_are_escaped_in_every_format():
    names = ["<script>x</script>", "a|b*_`", r"\input{x}&%$", "[bold]b[/bold]"]
    rows = [
        Result(protocol="<b>", detector=name, metric="auroc", value=0.5 + i / 10)
        for i, name in enumerate(names)
    ]
    board = leaderboard(Results(rows), "auroc")
    text = board.to_markdown()
    assert "<" not in text
    assert all(
        line.replace(r"\|", "").count("|") == 3 for line in text.splitlines()[:-2]
    )
    assert r"\input" not in board.to_latex()
    assert r"\textbackslash{}input\{x\}\&\%\$" in board.to_latex()
    assert "[bold]b[/bold]" in shown(board)


def test_a_table_of_protocols_names_its_metric():
    board = leaderboard(small(protocols=("near", "far_1")), "fpr_at_tpr")
    assert board.to_markdown().startswith("| FPR95 | near ↓ |")
    assert r"FPR95 & near (\%)" in board.to_latex()
    board = leaderboard(small(protocols=["auroc"]), "auroc")  # a protocol of that name
    assert board.to_markdown().startswith("| AUROC | auroc ↑ |")


def test_latex_has_nothing_but_ascii_and_cells_that_fit():
    keys = [row.key for row in metrics.table() if row.better != "neither"]
    names = ["a_b & 5 %", "α → β{x}", "c\\d"]
    values = {name: [i / 9, 1 + i / 9] for i, name in enumerate(names)}
    text = leaderboard(small(values, keys), keys).to_latex()
    table = text.partition(r"\end{tabular}")[0]
    assert table.isascii()
    assert table.count("$") % 2 == 0
    (spec,) = re.findall(r"begin{tabular}{(l+r+)}", table)
    lines = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 1 + len(names)
    for line in lines:
        assert len(re.findall(r"(?<!\\)&", line)) == len(spec) - 1
        bare = line.replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}")


def test_worse_is_what_the_level_says():
    p_value = leaderboard(small(), "auroc").entries["msp", "auroc"].p_value
    for level, is_worse in ((1 - p_value * 1.01, True), (1 - p_value * 0.99, False)):
        board = leaderboard(small(), "auroc", level=level)
        assert board.entries["msp", "auroc"].is_worse == is_worse
        assert not board.entries["vim", "auroc"].is_worse
        assert board.ranks.level == level
    raw = leaderboard(small(), "auroc", correction="none")
    alone = ttest_rel(VALUES["vim"], VALUES["msp"]).pvalue
    assert raw.entries["msp", "auroc"].p_value == pytest.approx(alone)
    assert "none correction" in raw.notes[1]


def test_equal_means_share_a_place_whatever_the_order_of_the_runs():
    values = {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1], "c": [0.5, 0.4, 0.6]}
    assert np.mean(values["a"]) != np.mean(values["b"])  # by a rounding error
    board = leaderboard(small(values | {"d": [0.6] * 3}, ["fpr_at_tpr"]), "fpr_at_tpr")
    places = {name: board.entries[name, "fpr_at_tpr"].place for name in "abcd"}
    assert places == {"a": 1, "b": 1, "c": 2, "d": 0}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"correction": "hochberg"}, "correction must be one of 'holm'"),
        ({"level": 95}, r"leaderboard: level must be a number in \(0, 1\), got 95"),
        ({"metric": []}, "metric must be one of .* got ''"),
        ({"results": Results([])}, "metric must be one of , got 'auroc'"),
        ({"metric": "openauc"}, "metric must be one of 'auroc', 'fpr_at_tpr'"),
        ({"results": small() + small()}, "runs must be unique"),
    ],
)
def test_bad_options_and_empty_tables_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        leaderboard(**({"results": small(), "metric": "auroc"} | options))
