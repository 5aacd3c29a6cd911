"""Leaderboards: means, spread, marks, tests, and five formats."""

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
from tests.extras import pandas as pd

DETECTORS = {"msp": 0.80, "knn": 0.90, "vim": 0.89}


@pytest.fixture
def table(rng):
    """Three detectors, two protocols, four runs each, two metrics."""
    rows = []
    for protocol in ("p", "q"):
        for repeat in (0, 1):
            for seed in (0, 1):
                for detector, value in DETECTORS.items():
                    noise = rng.normal(scale=0.01)
                    shared = {
                        "protocol": protocol,
                        "repeat": repeat,
                        "seed": seed,
                        "model": "mlp",
                        "detector": detector,
                    }
                    rows += [
                        Result(**shared, metric="auroc", value=value + noise),
                        Result(**shared, metric="fpr_at_tpr", value=1 - value - noise),
                    ]
    return Results(rows)


def test_entries_are_mean_and_deviation_over_runs(table):
    board = leaderboard(table, "auroc")
    assert board.columns == ("p", "q")
    for (row, column), entry in board.entries.items():
        values = table.where(detector=row, protocol=column, metric="auroc").column(
            "value"
        )
        assert entry.mean == pytest.approx(np.mean(values))
        assert entry.spread == pytest.approx(np.std(values, ddof=1))
        assert entry.n == 4


def test_best_and_runner_up_are_marked_by_the_direction_of_the_metric(table):
    for metric in ("auroc", "fpr_at_tpr"):
        board = leaderboard(table, metric)
        for column in board.columns:
            means = {row: board.entries[row, column].mean for row in board.rows}
            order = sorted(means, key=means.get, reverse=metric == "auroc")
            places = [board.entries[row, column].place for row in order]
            assert places == [1, 2, 0]
    assert (direction("auroc"), direction("fpr_at_tpr")) == ("higher", "lower")


def test_tests_against_the_best_equal_scipys_with_correction(table):
    board = leaderboard(table, "auroc")
    for column in board.columns:
        mine = table.where(protocol=column, metric="auroc")
        (best,) = [r for r in board.rows if board.entries[r, column].place == 1]
        others = [d for d in DETECTORS if d != best]
        values = {d: mine.where(detector=d).column("value") for d in DETECTORS}
        raw = [ttest_rel(values[best], values[d]).pvalue for d in others]
        for name, p in zip(others, adjust(raw, "holm"), strict=True):
            assert board.entries[name, column].p_value == pytest.approx(p)
        assert board.entries[best, column].p_value is None


def test_ranks_are_over_protocols_or_over_runs(table):
    board = leaderboard(table, "auroc")
    assert (board.blocks, board.ranks.n) == ("protocol", 2)
    assert board.rows == tuple(board.ranks.mean)
    by_run = leaderboard(table, "auroc", blocks="run")
    assert (by_run.blocks, by_run.ranks.n) == ("run", 8)


def test_metrics_can_be_columns(table):
    board = leaderboard(table, ["auroc", "fpr_at_tpr"], columns="metric")
    assert board.columns == ("auroc", "fpr_at_tpr")
    assert board.entries["msp", "auroc"].n == 8
    with pytest.raises(ValueError, match="metric must be one metric for columns="):
        leaderboard(table, ["auroc", "fpr_at_tpr"])
    with pytest.raises(ValueError, match="metric must be one of 'auroc', 'fpr_at_tpr'"):
        leaderboard(table, "openauc")


@pytest.mark.parametrize("metrics", [("auroc", "fpr_at_tpr"), ("fpr_at_tpr", "auroc")])
def test_metrics_stand_in_the_order_asked_for_and_the_first_leads(metrics):
    values = {"msp": (0.9, 0.5), "knn": (0.8, 0.4)}  # AUROC and FPR disagree
    rows = [
        Result(detector=detector, metric=metric, value=value)
        for detector, both in values.items()
        for metric, value in zip(("auroc", "fpr_at_tpr"), both, strict=True)
    ]
    board = leaderboard(Results(rows), metrics, columns="metric")
    assert board.columns == metrics
    assert board.rows[0] == ("msp" if metrics[0] == "auroc" else "knn")
    assert board.notes == ("One run each: no standard deviation.",)


def test_methods_with_other_runs_than_the_best_are_not_tested(table):
    """A paired test needs pairs: neither fewer runs nor as many others will do."""
    fewer = [r for r in table if (r.detector, r.seed) != ("vim", 1)]
    moved = [
        replace(r, seed=7) if (r.detector, r.seed) == ("vim", 1) else r for r in table
    ]
    for rows in (fewer, moved):
        board = leaderboard(Results(rows), "auroc")
        for column in board.columns:
            (best,) = [r for r in board.rows if board.entries[r, column].place == 1]
            assert board.entries["vim", column].p_value is None
            assert (board.entries["msp", column].p_value is None) == (best == "vim")


def test_a_direction_is_never_guessed():
    rows = [
        Result(detector=detector, seed=seed, metric="nll", value=value + seed**2 / 9)
        for detector, value in (("msp", 0.3), ("knn", 0.2))
        for seed in (0, 1)
    ]
    for unknown in ("nll", "auroc_gap", "accuracy_loss"):
        words = rf"the direction of '{unknown}' .*direction=\{{'{unknown}': 'lower'"
        with pytest.raises(ValueError, match=words):
            direction(unknown)
    with pytest.raises(ValueError, match="neither is better"):
        direction("imbalance_ratio")
    with pytest.raises(ValueError, match="the direction of 'nll'"):
        leaderboard(Results(rows), "nll")
    for better, first in (("lower", "knn"), ("higher", "msp")):
        board = leaderboard(Results(rows), "nll", direction={"nll": better})
        assert board.rows[0] == first
        assert board.better == {"nll": better}
    with pytest.raises(ValueError, match="direction of 'nll' must be one of 'higher'"):
        leaderboard(Results(rows), "nll", direction={"nll": "down"})


def test_methods_are_named_by_what_varies():
    rows = [
        Result(model=m, method=t, detector=d, metric="auroc", value=0.5)
        for m, t in (("a", "softmax"), ("b", "openauc"))
        for d in ("msp", "knn")
    ]
    assert set(leaderboard(Results(rows), "auroc").rows) == {
        "a · softmax · msp",
        "a · softmax · knn",
        "b · openauc · msp",
        "b · openauc · knn",
    }


def test_a_missing_cell_leaves_a_gap_and_no_test(table):
    kept = Results(row for row in table if (row.detector, row.protocol) != ("msp", "q"))
    board = leaderboard(kept, "auroc")
    assert ("msp", "q") not in board.entries
    assert "–" in board.to_markdown()
    assert board.ranks is None  # only one protocol has all methods


def test_the_same_run_twice_is_refused(table):
    with pytest.raises(ValueError, match="runs must be unique"):
        leaderboard(table + table, "auroc")


def test_csv_parquet_and_frame_hold_every_digit(table, tmp_path):
    board = leaderboard(table, "auroc")
    parsed = list(csv.DictReader(io.StringIO(board.to_csv())))
    means = [board.entries[r, c].mean for r in board.rows for c in board.columns]
    assert [float(record["mean"]) for record in parsed] == means
    frame = pd.read_parquet(board.save(tmp_path / "t.parquet"))
    assert frame["mean"].tolist() == means == board.to_frame()["mean"].tolist()
    assert (tmp_path / "t.csv") == board.save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == board.to_csv()


def test_latex_is_a_booktabs_table_with_marks(table, tmp_path):
    text = board_text = leaderboard(table, "auroc").to_latex()
    lines = text.splitlines()
    assert lines[:2] == [r"\begin{tabular}{lrrr}", r"\toprule"]
    assert r"\bottomrule" in lines
    assert text.count(r"\textbf{") == text.count(r"\underline{") == 2
    assert all(line.count(" & ") == 3 for line in lines if line.endswith(r"\\"))
    path = leaderboard(table, "auroc").save(tmp_path / "t.tex")
    assert path.read_text() == board_text


def test_markdown_marks_best_and_runner_up(table, tmp_path):
    board = leaderboard(table, "auroc")
    text = board.to_markdown()
    assert text.count("**") == 4
    assert len({line.count("|") for line in text.splitlines()}) == 1
    saved = board.save(tmp_path / "t.md").read_text()
    assert "Friedman" in saved
    with pytest.raises(ValueError, match=r"must be one of '\.md'"):
        board.save(tmp_path / "t.doc")


def test_the_terminal_shows_marks_and_notes(table):
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(leaderboard(table, "auroc"))
    text = console.export_text()
    assert "mean rank" in text
    assert "Nemenyi" in text


def test_names_are_escaped_in_every_format():
    names = ["<script>x</script>", "a|b*_`", r"\input{x}&%$", "[bold]b[/bold]"]
    rows = [
        Result(protocol="<b>", detector=name, metric="auroc", value=0.5 + i / 10)
        for i, name in enumerate(names)
    ]
    board = leaderboard(Results(rows), "auroc")
    text = board.to_markdown()
    assert "<" not in text
    assert all(line.replace(r"\|", "").count("|") == 3 for line in text.splitlines())
    latex = board.to_latex()
    assert r"\input" not in latex
    assert r"\textbackslash{}input\{x\}\&\%\$" in latex
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(board)
    assert "[bold]b[/bold]" in console.export_text()


def test_bad_options_and_empty_tables_are_refused(table):
    for options, words in (
        ({"correction": "hochberg"}, "correction must be one of 'holm'"),
        ({"level": 95}, r"level must be a number in \(0, 1\), got 95"),
        ({"metric": []}, "metric must be non-empty, got no names"),
    ):
        with pytest.raises(ValueError, match=f"leaderboard: {words}"):
            leaderboard(table, **({"metric": "auroc"} | options))
    with pytest.raises(ValueError, match="results must be non-empty, got no rows"):
        leaderboard(Results([]))


VALUES = {"knn": [0.9, 0.92, 0.91], "msp": [0.7, 0.74, 0.71], "vim": [0.9, 0.91, 0.925]}


def small(values=VALUES, metrics=("auroc", "fpr_at_tpr")):
    """Three runs of each detector; the second metric is one minus the first."""
    return Results(
        Result(detector=name, seed=seed, metric=metric, value=abs(i - value))
        for name, row in values.items()
        for seed, value in enumerate(row)
        for i, metric in enumerate(metrics)
    )


def test_a_table_looks_like_this_in_every_format():
    board = leaderboard(small(), "auroc")
    assert board.to_markdown().splitlines() == [
        "| | AUROC ↑ | mean rank |",
        "|---|---|---|",
        "| knn | *0.910 ± 0.010* | 1.50 |",
        "| vim | **0.912 ± 0.013** | 1.50 |",
        "| msp | 0.717 ± 0.021† | 3.00 |",
    ]
    assert board.to_latex().splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & AUROC $\uparrow$ & mean rank \\",
        r"\midrule",
        r"knn & \underline{0.910 $\pm$ 0.010} & 1.50 \\",
        r"vim & \textbf{0.912 $\pm$ 0.013} & 1.50 \\",
        r"msp & 0.717 $\pm$ 0.021$^\dagger$ & 3.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"% Needs \usepackage{booktabs}.",
        *(f"% {note}" for note in board.notes),
    ]
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(board)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[:7] == [
        "AUROC",
        "",
        "             AUROC ↑  mean rank",
        " ──────────────────────────────",
        " knn   0.910 ± 0.010       1.50",
        " vim   0.912 ± 0.013       1.50",
        " msp  0.717 ± 0.021†       3.00",
    ]
    assert board.notes == (
        "Mean ± standard deviation over 3 runs.",
        "† worse than the best of its column (paired t-test over the same runs, holm "
        "correction, level 0.95).",
        "Mean ranks over 3 runs: Friedman p = 0.086; ranks differ significantly if at "
        "least 1.91 apart (Nemenyi, level 0.95).",
    )


def test_a_protocol_with_the_name_of_a_metric_keeps_its_name():
    rows = [replace(row, protocol="auroc") for row in small() if row.metric == "auroc"]
    board = leaderboard(Results(rows), "auroc")
    assert board.title == "AUROC"
    assert board.to_markdown().startswith("| AUROC | auroc ↑ |")


def test_latex_has_nothing_but_ascii_and_cells_that_fit():
    keys = [row.key for row in metrics.table() if row.better != "neither"]
    names = ["a_b & 5 %", "α → β{x}", "c\\d"]
    rows = [
        Result(detector=name, seed=seed, metric=key, value=seed + i / 9)
        for i, name in enumerate(names)
        for seed in (0, 1)
        for key in keys
    ]
    text = leaderboard(Results(rows), keys, columns="metric").to_latex()
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


def test_the_terminal_marks_best_and_runner_up():
    console = Console(width=110, file=io.StringIO(), force_terminal=True)
    console.print(leaderboard(small(), "auroc"))
    text = console.file.getvalue()
    assert "\x1b[1;32m0.912 ± 0.013" in text  # bold and green
    assert "\x1b[4m0.910 ± 0.010" in text  # underlined


def test_a_metric_where_lower_is_better_has_the_same_order():
    both = leaderboard(small(), ["auroc", "fpr_at_tpr"], columns="metric")
    for record in both.records():
        twin = both.entries[record["method"], "auroc"]
        assert record["place"] == twin.place
        assert record["p_value"] == (twin.p_value and pytest.approx(twin.p_value))
        assert record["mean_rank"] == both.ranks.mean[record["method"]]
    assert both.better == {"auroc": "higher", "fpr_at_tpr": "lower"}
    one_run = small({name: row[:1] for name, row in VALUES.items() if name != "vim"})
    for metric in ("auroc", "fpr_at_tpr"):
        board = leaderboard(one_run, metric)
        assert (board.rows, board.ranks) == (("knn", "msp"), None)
        assert {entry.spread for entry in board.entries.values()} == {None}
        assert [record["mean_rank"] for record in board.records()] == [None, None]


def test_worse_is_what_the_level_says():
    board = leaderboard(small(), "auroc")
    p_value = board.entries["msp", "auroc"].p_value
    for level, is_worse in ((1 - p_value * 1.01, True), (1 - p_value * 0.99, False)):
        other = leaderboard(small(), "auroc", level=level)
        assert other.is_worse(other.entries["msp", "auroc"]) == is_worse
        assert not other.is_worse(other.entries["vim", "auroc"])
        assert other.ranks.level == level
    raw = leaderboard(small(), "auroc", correction="none")
    alone = ttest_rel(VALUES["vim"], VALUES["msp"]).pvalue
    assert raw.entries["msp", "auroc"].p_value == pytest.approx(alone)
    assert p_value == pytest.approx(2 * alone)
    assert "none correction" in raw.notes[1]


def test_numbers_of_runs_that_differ_are_told():
    rows = [row for row in small() if (row.detector, row.seed) != ("msp", 2)]
    board = leaderboard(Results(rows), "auroc")
    assert board.notes[0] == "Mean ± standard deviation over 2 to 3 runs."
    assert board.ranks.n == 2  # over the runs that all have
    for words, options in (
        ("columns must be one of 'protocol', 'metric'", {"columns": "detector"}),
        ("blocks must be one of 'auto', 'protocol', 'run'", {"blocks": "seed"}),
    ):
        with pytest.raises(ValueError, match=f"^leaderboard: {words}"):
            leaderboard(small(), "auroc", **options)


def test_equal_means_share_a_place():
    values = {"a": [0.5, 0.75, 0.25], "b": [0.25, 0.5, 0.75], "c": [0.1, 0.2, 0.3]}
    board = leaderboard(small({**values, "d": [0.0, 0.1, 0.0]}), "auroc")
    places = {name: board.entries[name, "auroc"].place for name in "abcd"}
    assert places == {"a": 1, "b": 1, "c": 2, "d": 0}


def test_one_method_alone_is_named_by_its_detector():
    rows = [
        Result(model="mlp", detector="msp", seed=seed, metric="auroc", value=0.5 + seed)
        for seed in (0, 1)
    ]
    board = leaderboard(Results(rows), "auroc")
    assert (board.rows, board.ranks) == (("msp",), None)
    assert board.entries["msp", "auroc"].place == 1
    assert board.notes == ("Mean ± standard deviation over 2 runs.",)


def _rows(table, metric="fpr_at_tpr"):
    return Results(
        Result(detector=name, seed=i, metric=metric, value=value)
        for name, values in table.items()
        for i, value in enumerate(values)
    )


def test_equal_means_share_a_place_whatever_the_order_of_the_runs():
    table = {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1], "c": [0.5, 0.4, 0.6]}
    assert np.mean(table["a"]) != np.mean(table["b"])  # by a rounding error
    board = leaderboard(_rows(table), "fpr_at_tpr")
    assert {r["method"]: r["place"] for r in board.records()} == {
        "a": 1,
        "b": 1,
        "c": 2,
    }


def test_small_numbers_are_not_shown_as_zero():
    table = {"a": [1e-4, 2e-4], "b": [0.5, 0.5002]}
    text = leaderboard(_rows(table), "fpr_at_tpr").to_markdown()
    assert "1.5e-04 ± 7.1e-05" in text
    assert "0.500 ± 1.4e-04" in text


def test_a_table_of_protocols_names_its_metric():
    rows = [
        Result(protocol=p, detector=d, metric="fpr_at_tpr", value=v)
        for p in ("near", "far_1")
        for d, v in (("a", 0.1), ("b", 0.2))
    ]
    board = leaderboard(Results(rows), "fpr_at_tpr")
    assert board.to_markdown().startswith("| FPR95 | near ↓ |")
    assert "FPR95 & near" in board.to_latex()
    assert {record["metric"] for record in board.records()} == {"fpr_at_tpr"}


def test_means_over_different_runs_are_noted():
    even = {"a": [0.1, 0.2], "b": [0.2, 0.3]}
    note = "not comparable"
    assert note not in " ".join(leaderboard(_rows(even), "fpr_at_tpr").notes)
    uneven = {"a": [0.1], "b": [0.2, 0.3]}
    assert note in " ".join(leaderboard(_rows(uneven), "fpr_at_tpr").notes)


def test_a_model_and_a_detector_of_one_name_are_two_methods():
    rows = [
        Result(model="x", seed=0, metric="auroc", value=0.1),
        Result(detector="x", seed=1, metric="auroc", value=0.9),
    ]
    board = leaderboard(Results(rows), "auroc")
    means = {record["method"]: record["mean"] for record in board.records()}
    assert means == {"model x": 0.1, "detector x": 0.9}


def test_the_direction_of_a_metric_comes_from_its_study(tmp_path):
    for name, value in (("a", 2.0), ("b", 1.0)):
        key = {"protocol": "p", "model": "m", "method": "", "detector": name}
        row = {"metric": "nll", "value": value, "n": 9}
        runs.Cell(key=key, rows=[row]).save(tmp_path)
    said = {"metrics": {"nll": {"label": "NLL", "better": "lower"}}}
    (tmp_path / "study.json").write_text(json.dumps(said))
    results = runs.results(tmp_path)
    board = leaderboard(results, "nll")
    assert board.rows == ("b", "a")
    assert board.entries["b", "p"].place == 1
    for kept in (results.where(protocol="p"), results + Results([]), results):
        assert kept.better == {"nll": "lower"}
    assert leaderboard(results, "nll", direction={"nll": "higher"}).rows == ("a", "b")
    with pytest.raises(ValueError, match="one direction"):
        _ = results + Results([], better={"nll": "higher"})
