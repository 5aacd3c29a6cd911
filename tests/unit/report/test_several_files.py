"""One page of several files of scores, as another program wrote them."""

import csv
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Scores, metrics, report, stats
from openset.cli import app
from tests.unit.report.test_page import Reader

pytest.importorskip("jinja2", reason="the extra report")

NAMES = ("cat", "dog", "other")
COLUMNS = {"labels": "y", "predicted": "yhat", "known": "ood", "ids": "file"}
READ = {"columns": COLUMNS, "unknown_label": "other", "higher_is_unknown": True}
FOREIGN = [
    "--columns", ",".join(f"{ours}={own}" for ours, own in COLUMNS.items()),
    "--unknown-label", "other", "--higher-is-unknown",
]  # fmt: skip


def write(path, gap, *, seed, n=300, order=None):
    """Write scores with a stranger's columns and sign."""
    labels = np.where(np.arange(300) < 180, np.arange(300) % 2, 2)
    rng = np.random.default_rng(seed)
    wrong = (rng.random(300) < 0.1) | (labels == 2)
    predicted = np.where(wrong, rng.integers(0, 2, 300), labels)
    outlier = rng.normal(size=300) - gap * (labels < 2)
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["file", "y", "yhat", "ood"])
        for i in np.arange(n) if order is None else order:
            pair = NAMES[labels[i]], NAMES[predicted[i]]
            table.writerow([f"{i}.png", *pair, repr(float(outlier[i]))])
    return path


@pytest.fixture
def files(tmp_path):
    """Three detectors; the samples of the second are in another order."""
    order = np.random.default_rng(9).permutation(300)
    return [
        write(tmp_path / "energy.csv", 1.0, seed=1),
        write(tmp_path / "odin.csv", 1.2, seed=2, order=order),
        write(tmp_path / "mine.csv", 1.5, seed=3),
    ]


def run(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def rows_of(page, caption):
    """Return the cells of the table that follows a caption."""
    body = page[page.index(caption) :].partition("<tbody>")[2].partition("</tbody>")[0]
    cells = [re.findall(r"<td[^>]*>([^<]*)", row) for row in body.split("</tr>")]
    return [one for one in cells if one]


def test_files_are_detectors_and_pairs_are_tested_by_ids(files, tmp_path):
    out = tmp_path / "page.html"
    done = run(*files, *FOREIGN, "--out", out)
    assert done.exit_code == 0, done.output
    page = out.read_text("utf-8")
    assert report.render(files, **READ) == page
    scores = {file.stem: Scores.load(file, **READ) for file in files}
    for name, found in scores.items():
        assert f'<tr><th scope="row">{name}</th>' in page
        assert f"{metrics.openauc(found):.4f}" in page
    pairs = [("mine", "odin"), ("mine", "energy"), ("odin", "energy")]  # best first
    tests = [stats.compare(scores[a], scores[b]) for a, b in pairs]
    p_values = np.array([test.p_value for test in tests])
    corrected = stats.adjust(p_values, "holm")
    assert np.abs(corrected - p_values).max() > 1e-3  # the correction shows
    shown = rows_of(page, "Tests of pairs, OpenAUC")
    for row, pair, test, p in zip(shown, pairs, tests, corrected, strict=True):
        assert tuple(row[:2]) == pair
        low, high = test.interval.low, test.interval.high
        numbers = [float(cell.replace("\N{MINUS SIGN}", "-")) for cell in row[2:]]
        wanted = [test.difference, low, high, test.p_value, float(p)]
        assert numbers == pytest.approx(wanted, rel=1e-3, abs=6e-5)
    data = page.partition('id="data">')[2].partition("</script>")[0]
    cells = json.loads(data)["cells"]
    assert [cell["name"] for cell in cells] == ["mine", "odin", "energy"]
    assert cells[0]["classes"] == ["cat", "dog"]
    options = page.partition('id="x-cell">')[2].partition("</select>")[0]
    assert options.count("<option") == 3
    text = "".join(Reader(page).texts)
    assert "energy, odin, mine" in text
    assert "3 methods · 1 problem · 3 files" in text
    assert '<li class="finding">' not in page


def test_several_files_have_a_page_in_the_current_folder(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("energy.csv", "mine.csv", *FOREIGN)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").exists()


def test_patterns_and_files_can_be_given_together(files, tmp_path):
    page = report.render([tmp_path / "{name}n.csv", files[0]], **READ)
    assert "energy, odi" in page


def test_the_names_of_folders_tell_files_of_one_name(tmp_path):
    for k, name in enumerate(("msp", "knn")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "scores.csv", 2.0, seed=k)
    page = report.render([tmp_path / n / "scores.csv" for n in ("msp", "knn")], **READ)
    assert "<h1>msp, knn</h1>" in page


def test_files_that_seem_shuffled_are_not_tested(tmp_path):
    within = np.arange(300)
    within[:180:2] = within[:180:2][::-1]  # the labels of all rows stay
    one = write(tmp_path / "a.csv", 2.0, seed=1)
    two = write(tmp_path / "b.csv", 2.0, seed=1, order=within)
    three = write(tmp_path / "c.csv", 1.0, seed=2)
    no_ids = {**READ, "columns": {**COLUMNS, "ids": ""}}
    page = report.render([one, two, three], **no_ids)
    assert len(rows_of(page, "Tests of pairs")) == 2
    assert "1 more cannot be tested" in page
    assert "Tests of pairs" not in report.render([one, two], **no_ids)


def test_other_samples_in_a_folder_have_no_test(tmp_path):
    (tmp_path / "scores").mkdir()
    for k, n in enumerate((300, 290)):
        file = write(tmp_path / f"{k}.csv", 2.0, seed=k, n=n)
        Scores.load(file, **READ).save(tmp_path / "scores" / f"{k}.npz")
    assert "Tests of pairs" not in report.render(tmp_path)


def test_repeats_have_no_tests_of_one_run(tmp_path):
    for name, gap in (("a", 1.0), ("b", 2.0)):
        for seed in (0, 1):
            write(tmp_path / f"{name}_seed{seed}.csv", gap, seed=seed)
    page = report.render(tmp_path / "{method}_seed{seed}.csv", **READ)
    assert "Tests of pairs" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("energy.csv energy.csv", "SCORES must be two or more different files"),
        ("energy.csv ./x/../energy.csv", "must be two or more different files"),
        ("energy.csv nowhere.csv", "no such file or folder: nowhere.csv"),
        ("energy.csv x", "must be one folder, or files of scores, got the folder x"),
        ("energy.csv odin.csv --threshold 1", "--threshold must be given with one"),
        ("energy.csv short.csv", "short.csv must be of the same samples as energy.csv"),
        ("energy.csv short.csv", "none for 50 of 300 ids"),
    ],
)
def test_what_cannot_be_on_one_page_is_refused(
    words, said, files, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    write(tmp_path / "short.csv", 2.0, seed=4, n=250)
    done = run(*words.split(), *FOREIGN)
    assert done.exit_code != 0
    message = str(done.exception)
    assert message.startswith("openset report: ")
    assert said in message
    assert not (tmp_path / "report.html").exists()


def test_a_list_of_nothing_is_refused():
    with pytest.raises(ValueError, match="source must be one folder, or files of"):
        report.render([])
