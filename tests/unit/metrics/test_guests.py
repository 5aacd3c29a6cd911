"""Metrics from outside the package: registered, named, or installed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy import stats as sps

from openset import Scores, UndefinedMetricError, evaluate, metrics, stats
from openset.metrics import Metric, _registry
from tests import forked

SRC = Path(metrics.__file__).parents[2]


def gap(scores, *, power=1):
    """Difference between the mean scores of the sides."""
    known, unknown = scores.known[~scores.is_unknown], scores.known[scores.is_unknown]
    return known.mean() ** power - unknown.mean() ** power


GAP = Metric(gap, label="Gap between the means", short="gap", better="higher")


def accepted(scores, threshold):
    """Share of samples accepted."""
    return np.mean(scores.known >= threshold)


def made(n=400, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, -1, -1], n // 4)
    known = rng.normal(size=n) + (labels >= 0)
    return Scores(labels=labels, predicted=np.maximum(labels, 0), known=known)


@pytest.fixture
def table(monkeypatch):
    """Forget afterwards what a test registers."""
    values = dict(_registry._TABLE._values)
    monkeypatch.setattr(_registry._TABLE, "_values", values)
    return values


@pytest.fixture
def registered(table):
    metrics.register(GAP)


def test_a_registered_metric_is_evaluated_like_the_others(registered):
    scores = made()
    result = evaluate(scores, bootstrap=200)
    assert result["gap"] == approx(gap(scores))
    assert result["gap"] in result.intervals["gap"]
    assert result.intervals["gap"].method == "bootstrap, 200"
    assert "gap" in metrics.names()
    assert metrics.get("gap") is GAP
    assert result.to_frame().loc["gap", "value"] == result["gap"]
    assert stats.direction("gap") == "higher"


def test_an_interval_without_a_kernel_is_the_bootstrap_of_the_function(registered):
    scores = made()
    found = metrics.bootstrap(scores, "gap", resamples=1000, power=1)
    spread = [scores.known[labels].var(ddof=1) / 200 for labels in (slice(200),
              slice(200, None))]  # fmt: skip
    half = sps.norm.ppf(0.975) * np.sqrt(sum(spread))
    assert (found.high - found.low) / 2 == approx(half, rel=0.1)
    other = made().with_known(scores.known * 2)
    compared = stats.compare(scores, other, "gap", resamples=200)
    assert compared.difference == approx(-gap(scores))
    assert compared.interval.method == "paired bootstrap, 200"


def test_a_metric_at_a_threshold_is_reported_where_there_is_one(table):
    row = Metric(accepted, label="Accepted", better="neither", kind="threshold")
    metrics.register(row)
    assert "accepted" not in evaluate(made())
    assert evaluate(made(), 0.5)["accepted"] == np.mean(made().known >= 0.5)
    with pytest.raises(ValueError, match="accepted is a metric at a threshold"):
        metrics.bootstrap(made(), "accepted")


def test_where_it_is_undefined_evaluate_says_so(table):
    def only_far(scores):
        msg = "only_far: undefined without a far group"
        raise UndefinedMetricError(msg)

    metrics.register(Metric(only_far, label="Only far", better="higher"))
    result = evaluate(made(), bootstrap=2)
    assert "only_far" not in result
    assert any("undefined without a far group" in note for note in result.notes)


def test_a_variant_of_a_metric_of_ours_can_be_registered(table):
    row = Metric(
        metrics.ccr_at_fpr,
        key="ccr_at_fpr_0.05",
        label="CCR at FPR 0.05",
        params={"fpr": 0.05},
        better="higher",
    )
    metrics.register(row)
    assert evaluate(made())["ccr_at_fpr_0.05"] == metrics.ccr_at_fpr(made(), 0.05)
    assert metrics.get("ccr_at_fpr").key == "ccr_at_fpr_0.1"


def test_what_is_no_metric_or_taken_is_refused(registered):
    metrics.register(GAP)  # again is nothing new
    with pytest.raises(ValueError, match="a name that is not taken, got 'auroc'"):
        metrics.register(Metric(gap, key="auroc", label="Mine", better="higher"))
    with pytest.raises(ValueError, match="name must be lower-case letters"):
        metrics.register(Metric(gap, key="My gap", label="Mine", better="higher"))
    with pytest.raises(
        TypeError, match=r"metric must be a Metric, got function\. Wrap"
    ):
        metrics.register(gap)
    for change, words in (
        ({"better": "up"}, "better must be one of 'higher'"),
        ({"kind": "score"}, "kind must be one of 'closed'"),
        ({"label": ""}, "label must be a text"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"Metric: {words}"):
            Metric(gap, **{"label": "Mine", "better": "higher"} | change)


def test_a_name_with_a_module_is_imported_and_registered(table):
    name = f"{__name__}:GAP"
    assert metrics.get(name) is GAP
    assert "gap" in evaluate(made())
    assert list(evaluate(made(), metrics=[name, "auroc"])) == ["gap", "auroc"]
    with pytest.raises(TypeError, match="metric must be a Metric, got function"):
        metrics.get(f"{__name__}:gap")
    with pytest.raises(ImportError, match="could not be imported"):
        metrics.bootstrap(made(), "no.such.module:GAP")
    with pytest.raises(ValueError, match=r"Name a metric of your own as 'package"):
        metrics.get("gapp")


GUEST = '''
from openset.metrics import Metric


def gap(scores):
    """Difference between the mean scores of the sides."""
    known, unknown = scores.known[~scores.is_unknown], scores.known[scores.is_unknown]
    return known.mean() - unknown.mean()


GAP = Metric(gap, label="Gap between the means", short="gap of means", better="higher")
'''

USE = """
import sys

from openset import evaluate, metrics, Scores

assert "guest" not in sys.modules
assert "gap" in metrics.names()
assert metrics.get("gap").label == "Gap between the means"
assert "gap" in evaluate(Scores.load("a.npz"))
"""

STUDY = """
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: logistic}]
detectors: [msp, energy]
headline: NAME
metrics: [NAME, auroc]
"""


@pytest.fixture
def site(tmp_path):
    """Install a package that offers a metric into a folder."""
    folder = tmp_path / "site"
    told = folder / "guest-1.0.dist-info"
    told.mkdir(parents=True)
    (folder / "guest.py").write_text(GUEST)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(
        "[openset.metrics]\ngap = guest:GAP\nbroken = guest:MISSING\n"
    )
    return folder


def shell(tmp_path, *words, path=()):
    return subprocess.run(  # noqa: S603  # ourselves
        [sys.executable, "-W", "ignore::RuntimeWarning", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [SRC, *path]))},
        capture_output=True,
        text=True,
        check=False,
    )


def printed(*arguments, **options):
    done = shell(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_metric_is_found_by_name(tmp_path, site):
    made().save(tmp_path / "a.npz")
    made(seed=1).save(tmp_path / "b.npz")
    printed(tmp_path, "-c", USE, path=[site])
    evaluate = ["evaluate", "a.npz", "--latex"]
    text = forked.run(evaluate, cwd=tmp_path, path=site).stdout
    assert r"Gap between the means $\uparrow$ & " in text
    compared = ["compare", "a.npz", "b.npz", "--metric", "gap"]
    text = forked.run(compared, cwd=tmp_path, path=site).stdout
    assert "differences in gap" in text
    failed = forked.run(compared, cwd=tmp_path, path=tmp_path, check=False)
    assert "--metric must be one of" in failed.stderr


def test_a_row_that_cannot_be_loaded_is_left_out_with_a_warning(tmp_path, site):
    text = (
        "import warnings; warnings.simplefilter('error'); import openset.metrics as m"
    )
    failed = shell(tmp_path, "-c", f"{text}; m.table()", path=[site])
    assert "entry point broken = guest:MISSING of guest could not be" in failed.stderr


def test_a_study_on_two_workers_reports_guests(tmp_path, site):
    pytest.importorskip("jinja2", reason="the extra report")
    pytest.importorskip("yaml", reason="the extra bench")
    beside = GUEST.replace("gap", "space").replace("GAP", "SPACE")
    (tmp_path / "beside.py").write_text(beside)  # not installed
    named = STUDY.replace("auroc", "beside:SPACE").replace("NAME", "gap")
    (tmp_path / "study.yaml").write_text(named)
    words = ["-m", "openset", "bench", "study.yaml", "--out", "run", "--jobs", "2"]
    text = printed(tmp_path, *words, path=[site])
    assert "gap" in text
    assert "2 of 2 cells" in text
    results = (tmp_path / "run" / "results.csv").read_text()
    assert results.count(",gap,") == results.count(",space,") == 2
    # The page can be made where the guests are not installed.
    (tmp_path / "beside.py").unlink()
    forked.run(["report", "run"], cwd=tmp_path, path=tmp_path)
    assert "gap of means" in (tmp_path / "run" / "report.html").read_text()


def test_a_metric_of_a_script_reaches_the_workers(tmp_path):
    pytest.importorskip("yaml", reason="the extra bench")
    (tmp_path / "study.yaml").write_text(STUDY.replace("NAME", "gap"))
    script = f"""{GUEST}
import openset.metrics
from openset import bench, runs

if __name__ == "__main__":
    openset.metrics.register(GAP)
    bench.run("study.yaml", "run", jobs=2)
    assert len(runs.results("run").where(metric="gap")) == 2
"""
    (tmp_path / "script.py").write_text(script)
    printed(tmp_path, "script.py")


RUN_AGAIN = """
from pathlib import Path

from openset import bench

text = Path("study.yaml").read_text()
for name in ("openauc", "gap", "gap"):
    Path("study.yaml").write_text(text.replace("NAME", name))
    print(bench.run("study.yaml", "run", backend="sequential").n_run)
"""


def test_a_study_that_names_one_more_metric_adds_it_to_finished_cells(tmp_path, site):
    pytest.importorskip("jinja2", reason="the extra report")
    pytest.importorskip("yaml", reason="the extra bench")
    (tmp_path / "study.yaml").write_text(STUDY)
    assert printed(tmp_path, "-c", RUN_AGAIN, path=[site]).split() == ["2", "2", "0"]
    assert (tmp_path / "run" / "results.csv").read_text().count(",gap,") == 2
    # Where the guest is not installed, nothing says which direction is better.
    (tmp_path / "run" / "study.json").write_text('{"headline": "gap"}')
    failed = forked.run(["report", "run"], cwd=tmp_path, path=tmp_path, check=False)
    assert "the direction of 'gap' must be known" in failed.stderr
