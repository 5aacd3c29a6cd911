"""The page as a file: complete, safe, small, and the same every time."""

import json
import re
import stat
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import bench, report, runs, thresholds
from openset.cli import app
from tests.bench.studies import small
from tests.report.studies import Reader, cell, render, scores, write_study

pytest.importorskip("jinja2", reason="the extra report")

EVIL = "<script>document.title='hacked'</script>"
CLOSING = "</script><img src=x onerror=alert(1)>"


def test_the_same_results_give_the_same_bytes_and_the_folder_stays_as_it_is(tmp_path):
    one, other = (
        write_study(tmp_path / name / "study", protocols=("digits",), seeds=1)
        for name in "ab"
    )
    for path in (other / "cells").iterdir():  # another provenance, the same results
        document = json.loads(path.read_text())
        document["provenance"] = {"machine": "there", "started": 2.0}
        path.write_text(json.dumps(document))
    before = {p: p.stat().st_mtime_ns for p in one.rglob("*")}
    one.chmod(stat.S_IRUSR | stat.S_IXUSR)
    first = report.write(one, tmp_path / "a.html").read_bytes()
    assert {p: p.stat().st_mtime_ns for p in one.rglob("*")} == before
    assert report.write(other, tmp_path / "b.html").read_bytes() == first
    one.chmod(stat.S_IRWXU)


def test_hostile_names_are_text_everywhere(tmp_path):
    folder = tmp_path / EVIL.replace("/", "∕")
    for seed in range(2):
        for detector in (EVIL, f"{CLOSING}../../etc/passwd"):
            classes = (CLOSING, EVIL, "{{ 7 * 7 }}")
            made, test, calibration = cell(
                seed, detector, CLOSING, gap=2.0, method=EVIL, classes=classes
            )
            groups = np.where(test.is_unknown, CLOSING, EVIL)
            test = replace(test, groups=groups)
            made.save(folder, scores=test, calibration=calibration)
    page = render(folder)
    assert page.tags.count("script") == 2
    assert page.tags.count("img") == page.tags.count("iframe") == 0
    assert not [a for a in page.attributes if a[1].startswith("on")]
    for name in (EVIL, CLOSING, "{{ 7 * 7 }}"):
        assert name in page.text
    assert "<script>document" not in page.source
    assert "</script><img" not in page.source


def test_the_page_asks_nobody_for_anything_and_every_figure_has_its_table(tmp_path):
    page = render(write_study(tmp_path / "study", seeds=1))
    assert set(re.findall(r"https?://[^\s\"'<>]+", page.source)) == {
        "http://www.w3.org/2000/svg"
    }
    assert "default-src 'none'" in page.source
    assert not [a for a in page.attributes if a[1] in {"src", "srcset", "action"}]
    assert page.tags.count("figure") == page.tags.count("figcaption")
    buttons = [a for a in page.attributes if a == ("button", "class", "csv")]
    assert len(buttons) == page.tags.count("figure")
    for title in (
        "OSCR", "ROC", "Risk over coverage", "Open-set accuracy over URR",
        "Metrics against unknown TPR", "Knownness by group",
        "Rejection by class and group", "Open-set accuracy over α",
        "Four views of one confusion matrix", "Learning curves",
    ):  # fmt: skip
        assert title in page.text
    assert not re.search(r"Mean over \d", page.text)


def test_the_leaderboard_has_the_metrics_of_the_study_in_its_order(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=3)
    about = {"label": "own", "better": "higher"}
    named = dict.fromkeys(("fpr_at_tpr", "auroc", "osa"), about)
    text = json.dumps({"headline": "auroc", "metrics": named})
    (folder / "study.json").write_text(text)
    page = render(folder)
    head = page.source.partition('<table class="board">')[2].partition("</thead>")[0]
    assert re.findall("<button[^>]*>([^<]*)", head) == [
        "method", "AUROC", "FPR95, known positive", "OSA (α = 0.5)", "OOSA (α = 0.5)",
    ]  # fmt: skip
    frame = runs.results(folder).to_frame()
    frame = frame[frame["metric"] == "auroc"].groupby(["method", "detector"])["value"]
    means = sorted(frame.mean(), reverse=True)
    shown = [float(row[0]) for row in _numbers(page)]
    assert shown == pytest.approx(means, abs=5e-5)
    spreads = [float(one) for one in re.findall(r"<small>±([\d.]+)", page.source)[::4]]
    order = frame.mean().sort_values(ascending=False).index
    assert spreads == pytest.approx(frame.std()[order].tolist(), abs=6e-5)
    # OSCR, ROC, and risk over coverage are means over the seeds, too.
    assert page.text.count("Mean over 3 repeats; the band is one standard") == 3


def _numbers(page):
    body = page.source.partition('<table class="board">')[2].partition("</tbody>")[0]
    return [
        re.findall(r'<span class="v [a-z]*">([\d.]+)', row)
        for row in body.partition("<tbody>")[2].split("</tr>")
        if "<td" in row
    ]


def test_a_pinned_method_is_in_the_figures_and_the_explorer(tmp_path):
    for i in range(7):
        made, test, _ = cell(1, f"d{i}", "digits", gap=3 - i / 3)
        made.save(tmp_path / "study", scores=test)
    names = [one["name"] for one in render(tmp_path / "study").cells()]
    assert "d6" not in names
    page = render(tmp_path / "study", pin=["d6"])
    assert [one["name"] for one in page.cells()] == [*names[:4], "d6"]


def test_the_alpha_of_a_study_is_that_of_its_page(tmp_path):
    """Also if it is 0; the study is written by `openset.bench`."""
    study = small((b"mixup}", b"mixup, alpha: 0.0}"))
    assert bench.run(study, tmp_path, backend="sequential").failed == ()
    page = render(tmp_path)
    assert "OOSA (α = 0)" in page.text
    assert "open-set accuracy, α = 0.00" in page.text
    assert "has an open-set accuracy (α = 0) of" in page.text
    assert {one["alpha"] for one in page.cells()} == {0}


def test_findings_stand_on_top_and_say_which_method_a_file_is_of(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=1)
    (folder / "study.json").write_text(json.dumps({"headline": "f_score"}))
    page = render(folder)
    assert page.source.index("OSR005") < page.source.index("Leaderboard</h2>")
    stems = {path.stem for path in (folder / "cells").iterdir()}
    named = [stem for stem in stems if stem in page.text]
    assert named
    for stem in named:
        assert re.search(rf"Cell\({stem}: (\w+)", page.text)


def test_the_cautions_of_the_thresholds_are_repeated(tmp_path):
    for i, (detector, kinds) in enumerate({"msp": 1, "knn": 2}.items()):
        made, test, calibration = cell(i, detector, "digits", gap=2.0)
        if kinds == 1:
            near = calibration.is_unknown & (calibration.groups == "near")
            calibration = calibration.take(near | ~calibration.is_unknown)
            made = replace(made, threshold=thresholds.osa(calibration).to_dict())
        made.save(tmp_path / "study", scores=test, calibration=calibration)
    page = render(tmp_path / "study")
    cautions = page.text.partition("Cautions: signs that a threshold may not work")[2]
    assert re.search(r"CAL004 .*msp", cautions)
    assert "CAL011" not in cautions


def test_cells_without_scores_still_have_a_leaderboard(tmp_path):
    for name in ("msp", "knn"):
        cell(0, name, "digits", gap=2.0)[0].save(tmp_path / "study")
    page = render(tmp_path / "study")
    assert "No test scores were saved" in page.text
    assert "knn" in page.text
    assert "x-cell" not in [a[2] for a in page.attributes if a[1] == "id"]


def test_the_command_writes_beside_its_source(tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=1)
    scores(1).save(tmp_path / "mine.npz")
    file = [str(tmp_path / "mine.npz"), "--threshold", "1.25"]
    for words in ([str(folder), "--pin", "openauc(lambda=0.1) · msp"], file):
        done = CliRunner().invoke(app, ["report", *words])
        assert done.exit_code == 0, done.output
    assert (folder / "report.html").stat().st_size > 10_000
    page = Reader((tmp_path / "mine.html").read_text())
    assert "at the threshold in use, 1.2500" in page.text
    assert "What the 12 checks found" in page.text
