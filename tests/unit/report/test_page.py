"""The page as a file: complete, safe, small, and the same every time."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import (
    ArtefactError,
    UndefinedMetricError,
    evaluate,
    metrics,
    report,
    runs,
    thresholds,
)
from openset.cli import app
from openset.report import (
    _explorer,
    _figures,
    _findings,
    _leaderboard,
    _report_data,
    _runs,
)
from openset.results import Results
from openset.scores import Scores
from tests.unit.report.studies import cell, scores, write_study

pytest.importorskip("jinja2", reason="the extra report")

EVIL = "<script>document.title='hacked'</script>"
CLOSING = "</script><img src=x onerror=alert(1)>"


class Reader(HTMLParser):
    """Collects elements, attributes and visible text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Remember an element."""
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        """Remember a text."""
        self.texts.append(data)


def test_the_same_results_give_the_same_bytes(tmp_path):
    one = write_study(tmp_path / "a" / "study")
    other = write_study(tmp_path / "b" / "study")
    for path in (other / "cells").iterdir():  # another provenance, the same results
        document = json.loads(path.read_text())
        document["provenance"] = {"machine": "there", "started": 2.0}
        path.write_text(json.dumps(document))
    first = report.write(one, tmp_path / "a.html").read_bytes()
    assert report.write(other, tmp_path / "b.html").read_bytes() == first
    assert report.write(one, tmp_path / "c.html").read_bytes() == first


def test_hostile_names_are_text_everywhere(tmp_path):
    folder = tmp_path / EVIL.replace("/", "∕")
    for seed in range(2):
        for detector in (EVIL, f"{CLOSING}../../etc/passwd"):
            made, test, calibration = cell(
                seed, detector, CLOSING, gap=2.0, method=EVIL,
                params={EVIL: seed}, classes=(CLOSING, EVIL, "{{ 7 * 7 }}"),
            )  # fmt: skip
            groups = np.where(test.is_unknown, CLOSING, EVIL)
            columns = {n: getattr(test, n) for n in ("labels", "predicted", "known")}
            made.save(
                folder, scores=Scores(**columns, groups=groups), calibration=calibration
            )
    text = report.write(folder, tmp_path / "page.html").read_text()
    page = Reader(text)
    assert page.tags.count("script") == 2
    assert page.tags.count("img") == page.tags.count("iframe") == 0
    assert not [a for a in page.attributes if a[1].startswith("on")]
    shown = "".join(page.texts)
    assert EVIL in shown
    assert CLOSING in shown
    assert "{{ 7 * 7 }}" in shown
    assert "<script>document" not in text
    assert "</script><img" not in text


def test_the_page_asks_nobody_for_anything(tmp_path):
    text = report.render(write_study(tmp_path / "study"))
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) == {
        "http://www.w3.org/2000/svg"
    }
    assert "default-src 'none'" in text
    page = Reader(text)
    assert not [a for a in page.attributes if a[1] in {"src", "srcset", "action"}]


def test_every_figure_has_its_table(tmp_path):
    page = Reader(report.render(write_study(tmp_path / "study")))
    assert page.tags.count("figure") == page.tags.count("figcaption")
    buttons = [a for a in page.attributes if a == ("button", "class", "csv")]
    assert len(buttons) == page.tags.count("figure")
    shown = "".join(page.texts)
    for title in (
        "OSCR", "ROC", "Open-set accuracy over URR", "Metrics against unknown TPR",
        "Knownness by group", "Rejection by class and group", "OpenAUC over lambda",
        "Open-set accuracy over α", "Four views of one confusion matrix",
        "Learning curves",
    ):  # fmt: skip
        assert title in shown


def test_the_leaderboard_is_the_mean_and_spread_of_the_results(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=3)
    material = _report_data.read(folder)
    board = _leaderboard.board(material.runs, "openauc", material.headings)
    frame = runs.results(folder).to_frame()
    for method in board.methods:
        mine = [run for run in material.runs if run.method == method]
        values = [run.values["auroc"].value for run in mine]
        shown = board.scores[method]["auroc"]
        assert shown.mean == pytest.approx(np.mean(values))
        assert shown.spread == pytest.approx(np.std(values, ddof=1))
        assert set(values) <= set(frame[frame.metric == "auroc"]["value"])
    means = [board.scores[m]["openauc"].mean for m in board.methods]
    assert means == sorted(means, reverse=True)
    ranks = [board.scores[m]["fpr_at_tpr"] for m in board.methods]
    best = min(ranks, key=lambda score: score.rank)
    assert best.mean == min(score.mean for score in ranks)  # lower is better


def test_the_summary_says_whether_the_lead_is_more_than_chance(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=4)
    shown = "".join(Reader(report.render(folder)).texts)
    assert "paired t-tests over 4 seeds of one draw of the classes" in shown
    assert re.search(r"The lead over .* is (not )?significant \(", shown)
    for name, gap in (("a", 2.0), ("b", 2.01)):
        made, test, _ = cell(1, name, "digits", gap=gap)
        made.save(tmp_path / "pair", scores=test)
    shown = "".join(Reader(report.render(tmp_path / "pair")).texts)
    assert "On the same samples the lead is" in shown
    assert shown.index("the lead is") < shown.index("With its threshold")


def test_the_lead_is_tested_on_the_same_samples_or_not_at_all(tmp_path):
    def shown(folder, *, ids, turn):
        for name, gap in (("a", 2.0), ("b", 2.01)):
            made, test, _ = cell(1, name, "digits", gap=gap)
            test = replace(test, ids=np.arange(len(test)) if ids else None)
            rows = np.arange(len(test))
            if turn and name == "b":  # within each class: the labels stay
                back = np.lexsort((-rows, test.labels))
                rows[np.argsort(test.labels, kind="stable")] = back
            made.save(tmp_path / folder, scores=test.take(rows))
        text = "".join(Reader(report.render(tmp_path / folder)).texts)
        return re.findall(r"On the same samples the[^)]*|The lead is not.*", text)

    wanted = shown("plain", ids=False, turn=False)
    assert wanted[0].startswith("On the same")
    assert shown("ids", ids=True, turn=True) == wanted
    (doubt,) = shown("doubt", ids=False, turn=True)
    assert "seem to be in different orders" in doubt


def test_a_lead_that_cannot_be_tested_is_not_spoken_of(tmp_path):
    """Models that do not depend on their seed: all differences are the same."""
    for seed in range(3):
        for name, gap in (("a", 1.0), ("b", 2.0)):
            made, test, _ = cell(1, name, "digits", gap=gap)
            made = replace(made, key=made.key | {"seed": seed})
            made.save(tmp_path / "study", scores=test)
    shown = "".join(Reader(report.render(tmp_path / "study")).texts)
    assert "is best with" in shown
    assert "chance" not in shown


def test_runs_are_counted_per_method_and_problem(tmp_path):
    folder = write_study(tmp_path / "study", seeds=3)
    assert " 3 runs of each " in " ".join(Reader(report.render(folder)).texts)
    made, test, _ = cell(1, "msp", "digits", gap=2.0, method="openauc")
    made.save(folder, scores=test)
    assert "up to 3 runs of each" in "".join(Reader(report.render(folder)).texts)


def test_where_nothing_was_found_there_are_no_other_checks(tmp_path):
    scores(1).save(tmp_path / "mine.npz")
    assert "What the 12 checks found" in report.render(tmp_path / "mine.npz")


def test_a_stopped_run_gets_its_table_of_results(tmp_path):
    folder = write_study(tmp_path / "study")
    assert not (folder / "results.csv").exists()
    report.write(folder, tmp_path / "page.html")
    table = Results.load(folder / "results.csv")
    assert list(table) == list(runs.results(folder))


def test_a_hundred_thousand_samples_stay_below_eight_megabytes(tmp_path):
    (tmp_path / "study" / "scores").mkdir(parents=True)
    for i in range(4):
        one = scores(i, 100_000)
        one.save(tmp_path / "study" / "scores" / f"{i}.npz")
    path = report.write(tmp_path / "study", tmp_path / "page.html")
    assert path.stat().st_size < 8_000_000
    assert "of 4 cells" in path.read_text()  # and it says that not all are in it


def test_detectors_on_one_network_share_its_labels():
    one = scores(1)
    first = _runs.Run(method="a", values={})
    packed = _explorer.pack([(first, one), (first, one.with_known(one.known + 1.0))])
    known, other = packed.cells
    assert known["label"] == other["label"]
    assert known["known"] != other["known"]


def test_the_explorer_knows_decisions_by_a_rule():
    overall = {"overall_score": _runs.Value(0.5)}
    for values, threshold, is_by_rule in (
        (overall, None, True),
        (overall, 0.5, False),
        ({}, None, False),
    ):
        run = _runs.Run(method="a", values=values, threshold=threshold)
        (packed,) = _explorer.pack([(run, scores(1))]).cells
        assert packed["by_rule"] is is_by_rule


def test_too_many_samples_are_thinned_and_it_is_said(monkeypatch):
    monkeypatch.setattr(_explorer, "MOST_SAMPLES", 100)
    one = scores(1)
    packed = _explorer.pack([(_runs.Run(method="a", values={}), one)])
    cell_ = packed.cells[0]
    assert cell_["n"] == 400
    assert cell_["shown"] == 100
    assert cell_["row"] is not None


def test_one_file_of_scores_is_enough(tmp_path):
    scores(1).save(tmp_path / "mine.npz")
    done = CliRunner().invoke(
        app, ["report", str(tmp_path / "mine.npz"), "--threshold", "1.25"]
    )
    assert done.exit_code == 0, done.output
    text = (tmp_path / "mine.html").read_text()
    assert "at the threshold in use, 1.2500" in text
    assert "Halfpoint" in text


def test_the_folder_that_openset_score_wrote_is_enough(tmp_path):
    for name in ("msp", "knn-k=20"):
        scores(1).save(tmp_path / f"scores-{name}.npz")
    (tmp_path / "scores-msp.html").write_text("the report of one of them")
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    shown = Reader((tmp_path / "report.html").read_text()).texts
    assert {"msp", "knn-k=20"} <= set(shown)


def test_the_command_writes_into_the_run_folder(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=1)
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert (folder / "report.html").stat().st_size > 10_000
    shown = CliRunner().invoke(app, ["report", "--help"]).output
    assert "openset report runs/study" in shown


def test_findings_stand_on_top_and_say_which_method_a_file_is_of(tmp_path):
    folder = write_study(tmp_path / "study")
    (folder / "study.json").write_text(json.dumps({"headline": "f_score"}))
    text = report.render(folder)
    assert text.index("OSR005") < text.index("Leaderboard</h2>")
    stems = {path.stem for path in (folder / "cells").iterdir()}
    shown = "".join(Reader(text).texts)
    named = [stem for stem in stems if stem in shown]
    assert named
    for stem in named:
        model = re.search(rf"{stem} \((\w+)", shown)
        assert model is not None, shown


def test_the_cautions_of_the_thresholds_are_repeated(tmp_path):
    for i, (detector, kinds) in enumerate({"msp": 1, "knn": 2}.items()):
        made, test, calibration = cell(i, detector, "digits", gap=2.0)
        if kinds == 1:
            near = calibration.is_unknown & (calibration.groups == "near")
            calibration = calibration.take(near | ~calibration.is_unknown)
            chosen = thresholds.osa(calibration).to_dict()
            made = replace(made, threshold=chosen)
        made.save(tmp_path, scores=test, calibration=calibration)
    found = {one.code: one for one in _findings.cautions(_report_data.read(tmp_path))}
    assert "msp" in found["CAL004"].methods
    assert "CAL011" not in found
    page = "".join(Reader(report.render(tmp_path)).texts)
    assert "Cautions: signs that a threshold may not work" in page
    assert found["CAL004"].message in page
    file = tmp_path / "scores.npz"
    scores().save(file)
    assert "Cautions: signs that" not in report.render(file)


def test_what_cannot_be_reported_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        report.write(tmp_path / "nowhere", tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtefactError, match="must be a run folder"):
        report.write(tmp_path / "empty", tmp_path / "page.html")
    with pytest.raises(ValueError, match=r"ends in \.html"):
        report.write(tmp_path / "empty", tmp_path / "page.txt")
    write_study(tmp_path / "study", protocols=("digits",), seeds=1)
    with pytest.raises(ValueError, match="one file of scores only"):
        report.write(tmp_path / "study", tmp_path / "page.html", threshold=1.0)
    known = scores(1).take(~scores(1).is_unknown)
    known.save(tmp_path / "known.npz")
    with pytest.raises(UndefinedMetricError, match="without unknown samples"):
        report.write(tmp_path / "known.npz", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_cells_without_numbers_are_refused(tmp_path):
    key = {"protocol": "p", "model": "m", "method": "", "detector": "d", "seed": 0}
    runs.Cell(key=key, rows=[]).save(tmp_path / "study")
    with pytest.raises(ArtefactError, match="cells must have metrics"):
        report.render(tmp_path / "study")


def test_settings_in_titles_become_a_figure(tmp_path):
    for k in (1, 5, 20):
        made, test, _ = cell(0, f"knn(k={k})", "digits", gap=1 + k / 10)
        made.save(tmp_path / "study", scores=test)
    text = report.render(tmp_path / "study")
    assert "OpenAUC over k of knn" in text


def test_cells_without_scores_still_have_a_leaderboard(tmp_path):
    made, _, _ = cell(0, "msp", "digits", gap=2.0)
    made.save(tmp_path / "study")
    other, _, _ = cell(0, "knn", "digits", gap=1.0)
    other.save(tmp_path / "study")
    text = report.render(tmp_path / "study")
    assert "No test scores were saved" in text
    assert "knn" in text
    assert 'id="x-cell"' not in text


def test_curves_are_means_over_the_seeds(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=3)
    text = report.write(folder, tmp_path / "page.html").read_text()
    shown = "".join(Reader(text).texts)
    # OSCR, ROC, and risk over coverage.
    assert shown.count("Mean over 3 repeats; the band is one standard deviation.") == 3
    # What `cell` drew for postmax with λ = 1, seed by seed.
    areas = [
        evaluate(scores(10 * seed, gap=2.2 + 1.0 / 5))["openauc"] for seed in range(3)
    ]
    area = f"OpenAUC {np.mean(areas):.4f} ± {np.std(areas, ddof=1):.4f}"
    assert area in shown
    one = write_study(tmp_path / "one", protocols=("digits",), seeds=1)
    alone = report.write(one, tmp_path / "one.html").read_text()
    assert not re.search(r"Mean over \d", "".join(Reader(alone).texts))


def test_over_several_problems_lower_is_better_where_it_is(tmp_path):
    """No method has both problems, so that means decide."""
    values = {("a", "p"): 0.9, ("b", "q"): 0.2}
    for (name, protocol), value in values.items():
        key = {"protocol": protocol, "model": "m", "method": "", "detector": name}
        row = {"metric": "fpr_at_tpr", "value": value, "n": 9}
        runs.Cell(key=key, rows=[row]).save(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps({"headline": "fpr_at_tpr"}))
    shown = "".join(Reader(report.render(tmp_path)).texts)
    assert "by FPR95, b is best: 0.2000 on average" in shown


def _lone_rows(folder, table, *, metric="auroc", protocol="p"):
    for name, values in table.items():
        for seed, value in enumerate(values):
            key = {"protocol": protocol, "model": "m", "method": "", "detector": name}
            row = {"metric": metric, "value": value, "n": 9}
            runs.Cell(key=key | {"seed": seed}, rows=[row]).save(folder)
    (folder / "study.json").write_text(json.dumps({"headline": metric}))
    return "".join(Reader(report.render(folder)).texts)


def test_a_lead_is_claimed_only_over_methods_with_the_same_runs(tmp_path):
    table = {"a": [0.90, 0.91, 0.93, 0.92], "b": [0.70, 0.72, 0.71, 0.70]}
    text = _lone_rows(tmp_path / "even", table)
    assert "The lead over every other method is significant" in text
    text = _lone_rows(tmp_path / "uneven", table | {"c": [0.9, 0.91]})
    assert "The lead over every other method that has the same runs is sig" in text


def test_a_leader_by_rank_that_is_worse_on_average_has_no_lead(tmp_path):
    for protocol in ("p", "q"):
        _lone_rows(tmp_path, {"a": [0.51], "b": [0.50]}, protocol=protocol)
    worse = {"a": [0.1] * 20, "b": (0.9 + np.arange(20) / 1000).tolist()}
    text = _lone_rows(tmp_path, worse, protocol="r")
    assert "a is best" in text
    assert "The lead over b is not significant" in text


@pytest.mark.parametrize("without", ["best", "next"])
def test_the_lead_is_that_over_the_runner_up_or_none(tmp_path, without):
    for name, gap in (("best", 2.6), ("next", 2.0), ("last", 1.0)):
        made, test, _ = cell(1, name, "digits", gap=gap)
        made.save(tmp_path, scores=None if name == without else test)
    shown = "".join(Reader(report.render(tmp_path)).texts)
    assert "Next is next" in shown
    assert "the lead is" not in shown


def test_the_explorer_starts_at_the_exact_oracle():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, -1], [20, 9980])  # the share of known samples rounds to 0
    known = rng.normal(size=10_000) + 6 * (labels >= 0)
    rare = Scores(labels=labels, predicted=np.zeros(10_000, int), known=known)
    run = _runs.Run(method="m", values={})
    (packed,) = _explorer.pack([(run, rare)]).cells
    assert float(packed["best"]) == metrics.osa_optimum(rare).threshold
    assert np.isfinite(float(packed["best"]))


def test_a_missing_number_is_not_infinite():
    assert _figures.number_text(float("nan")) == "–"
