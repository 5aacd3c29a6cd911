"""What a page can be made of: files of other programs, folders of training."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Scores, datasets, evaluate, metrics, protocols, report, stats
from openset.cli import app
from openset.runs import Cell
from tests.report.studies import Reader, render, scores, write_study

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
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["file", "y", "yhat", "ood"])
        for i in np.arange(n) if order is None else order:
            pair = NAMES[labels[i]], NAMES[predicted[i]]
            table.writerow([f"{i}.png", *pair, repr(float(outlier[i]))])
    return path


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three detectors; the samples of the second are in another order."""
    monkeypatch.chdir(tmp_path)
    order = np.random.default_rng(9).permutation(300)
    return [
        write(tmp_path / "energy.csv", 1.0, seed=1),
        write(tmp_path / "odin.csv", 1.2, seed=2, order=order),
        write(tmp_path / "mine.csv", 1.5, seed=3),
    ]


def run(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_files_are_detectors_and_pairs_are_tested_by_ids(files, tmp_path):
    done = run(*files, *FOREIGN)
    assert done.exit_code == 0, done.output
    page = Reader((tmp_path / "report.html").read_text("utf-8"))
    assert render(files, **READ).source == page.source
    found = {file.stem: Scores.load(file, **READ) for file in files}
    for name, one in found.items():
        assert f'<tr><th scope="row">{name}</th>' in page.source
        assert f"{metrics.openauc(one):.4f}" in page.text
    pairs = [("mine", "odin"), ("mine", "energy"), ("odin", "energy")]  # best first
    tests = [stats.compare(found[a], found[b]) for a, b in pairs]
    p_values = stats.adjust([test.p_value for test in tests], "holm")
    shown = page.rows("Tests of pairs, OpenAUC")
    for row, pair, test, p in zip(shown, pairs, tests, p_values, strict=True):
        assert tuple(row[:2]) == pair
        numbers = [float(one.replace("\N{MINUS SIGN}", "-")) for one in row[2:]]
        span = test.interval
        wanted = [test.difference, span.low, span.high, test.p_value, p]
        assert numbers == pytest.approx(wanted, rel=1e-3, abs=6e-5)
    cells = page.cells()
    assert [one["name"] for one in cells] == ["mine", "odin", "energy"]
    assert cells[0]["classes"] == ["cat", "dog"]
    assert "3 methods · 1 problem · 3 files" in page.text
    assert '<li class="finding">' not in page.source


def test_files_of_other_samples_or_repeats_are_not_tested(tmp_path):
    within = np.arange(300)
    within[:180:2] = within[:180:2][::-1]  # the labels of all rows stay
    one = write(tmp_path / "a.csv", 2.0, seed=1)
    two = write(tmp_path / "b.csv", 2.0, seed=1, order=within)
    three = write(tmp_path / "c.csv", 1.0, seed=2)
    no_ids = {**READ, "columns": {**COLUMNS, "ids": ""}}
    page = render([one, two, three], **no_ids)
    assert len(page.rows("Tests of pairs")) == 2
    assert "1 more cannot be tested" in page.text
    assert "Tests of pairs" not in render([one, two], **no_ids).text
    for name in "ab":
        for seed in (0, 1):
            write(tmp_path / f"{name}_seed{seed}.csv", 1.0 + seed, seed=seed)
    page = render(tmp_path / "{method}_seed{seed}.csv", **READ)
    assert "Tests of pairs" not in page.text
    assert "2 runs of each" in page.text


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Write what cannot be on one page."""
    folder = tmp_path_factory.mktemp("wrong")
    write(folder / "energy.csv", 1.0, seed=1)
    write(folder / "short.csv", 2.0, seed=4, n=250)
    write_study(folder / "study", protocols=("digits",), seeds=1)
    key = {"protocol": "p", "model": "m", "method": "", "detector": "d", "seed": 0}
    Cell(key=key, rows=[]).save(folder / "bare")
    (folder / "empty").mkdir()
    scores(1).take(~scores(1).is_unknown).save(folder / "known.npz")
    return folder


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        ([], {}, "source must be one folder, or files of scores, got 0 paths"),
        (["nowhere"], {}, "no such file: .*nowhere"),
        (["empty"], {}, "must be a run folder of openset bench with finished cells"),
        (["bare"], {}, "must be a run folder of openset bench with finished cells"),
        (["study"], {"threshold": 1.0}, "threshold must be given with one file"),
        (["study"], {"path": "page.txt"}, "ending of page.txt must be one of"),
        (["study"], {"pin": ["x"]}, "report: pin must be one of 'openauc"),
        (["known.npz"], {"threshold": "x"}, "undefined without unknown samples"),
        (["energy.csv"] * 2, READ, "SCORES must be two or more different files"),
        (["energy.csv", "bare"], READ, "files of scores, got 2 paths with 1 folders"),
        (["energy.csv", "short.csv"], READ, "same samples as .*, got 50 missing ids"),
        (["energy.csv", "short.csv"], {"threshold": 1}, "given with one file"),
    ],
)
def test_what_cannot_be_on_a_page_is_refused(wrong, tmp_path, names, options, said):
    path = tmp_path / options.get("path", "page.html")
    with pytest.raises((ValueError, OSError), match=said):
        report.write([wrong / name for name in names], **{**options, "path": path})
    assert not path.exists()


def test_the_folder_that_openset_score_wrote_is_enough(tmp_path):
    for name in ("msp", "knn-k=20"):
        scores(1).save(tmp_path / f"scores-{name}.npz")
    (tmp_path / "scores-msp.html").write_text("the report of one of them")
    assert run(tmp_path).exit_code == 0
    shown = Reader((tmp_path / "report.html").read_text()).texts
    assert {"msp", "knn-k=20"} <= set(shown)


def test_a_folder_of_training_shows_its_curves_and_splits_are_repeats(tmp_path):
    pytest.importorskip("torch", reason="an extra")
    digits = datasets.load("digits")
    protocols.holdout(digits, 6, 4, 2, rng=0).save(tmp_path / "draws.json")
    words = "train -m softmax --data digits --recipe arpl --epochs 2 --set lr=0.02"
    places = ["--protocol", str(tmp_path / "draws.json"), "--out", str(tmp_path / "a")]
    done = CliRunner().invoke(app, [*words.split(), "--split", "all", *places])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "a" / "split0-seed0"
    page = render(folder)
    assert "training accuracy" in page.text
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert f"{log[-1]['loss']:.4f}" in page.text
    record = json.loads((folder / "trained.json").read_text())
    for name in record["spec"]["protocol"]["known"]:
        assert f">{name}</text>" in page.source
    folder.rename(folder.with_name("splitHard-seed0"))  # of a protocol with names
    page = render(tmp_path / "a")
    assert "2 runs of each" in page.text
    paths = sorted((tmp_path / "a").glob("split*/scores/published.npz"))
    values = [evaluate(Scores.load(path))["openauc"] for path in paths]
    assert f"{np.mean(values):.4f}" in page.text
    assert f"{np.std(values, ddof=1):.4f}" in page.text
