"""All checks together: run, run_folder, the registry and its pages."""

import json
from pathlib import Path

import numpy as np
import pytest

from openset import ArtefactError, Scores, checks, metrics, protocols
from openset.checks import _metric_names
from openset.checks._run import REGISTRY
from openset.checks._study_folder import read_folder
from tests.unit.checks.makers import reported, scores

DOCS = Path(__file__).parents[3] / "docs" / "checks"
CODES = [f"OSR{i:03d}" for i in range(1, 13)]


def test_there_are_twelve_checks_in_the_order_of_their_codes():
    assert list(REGISTRY) == CODES
    assert [finding.code for finding in checks.run()] == CODES


def test_an_empty_study_is_not_applicable_throughout():
    findings = checks.run()
    assert {finding.status for finding in findings} == {"not applicable"}
    assert all(finding.message and not finding.remedy for finding in findings)


@pytest.mark.parametrize("code", CODES)
def test_each_check_has_a_page_with_its_title(code):
    check = REGISTRY[code]
    assert check.link == f"docs/checks/{code}.md"
    page = (DOCS / f"{code}.md").read_text("utf-8")
    assert page.startswith(f"# {code}: {check.title}\n")
    for heading in ("## What it checks", "## Why", "## What to do"):
        assert heading in page


def test_the_seven_guidelines_are_covered_and_the_index_says_by_which():
    covered = {n for check in REGISTRY.values() for n in check.guidelines}
    assert covered == set(range(1, 8))
    rows = [
        line.split("|")
        for line in (DOCS / "index.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    said = {int(row[1]): row[3] for row in rows}
    assert sorted(said) == list(range(1, 8))
    for code, check in REGISTRY.items():
        assert all(code in said[n] for n in check.guidelines)


def test_findings_have_a_remedy_a_link_and_a_plain_record():
    (finding,) = [f for f in checks.run(headline="f1") if f.code == "OSR005"]
    assert finding.is_finding
    assert finding.remedy
    record = json.loads(json.dumps(finding.to_dict()))
    assert record["status"] == "finding"
    assert record["link"] == "docs/checks/OSR005.md"


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"scores": [1]}, "scores must be a Scores, got list"),
        ({"calibration": {"a": 3}}, "calibration must be a Scores, got int"),
        ({"results": []}, "results must be a Results, got list"),
        ({"protocols": ["x"]}, "protocols must be a Protocol, got str"),
        ({"parts": [1]}, "parts must be a Mapping, got list"),
        ({"headline": 3}, "headline must be a str, got int"),
        ({"claim": "big"}, "claim must be a Claim, got str"),
    ],
)
def test_wrong_kinds_are_refused_by_name(study, message):
    with pytest.raises(TypeError, match=f"checks.run: {message}"):
        checks.run(**study)


@pytest.mark.parametrize("threshold", [float("nan"), "high", {"value": None}, object()])
def test_a_threshold_must_have_a_number(threshold):
    with pytest.raises(ValueError, match=r"checks\.run: thresholds: threshold must be"):
        checks.run(thresholds=threshold)


# What the metrics depend on, by trying: the table of metrics must say the same.


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(4)
    labels = np.concatenate([rng.integers(0, 3, 60), np.full(30, -1)])
    return Scores(
        labels=labels,
        predicted=np.where(rng.random(90) < 0.8, np.maximum(labels, 0), 1),
        known=rng.normal(size=90) + (labels >= 0),
        n_classes=3,
    )


CALIBRATION = Scores(labels=[0, -1], predicted=[0, 0], known=[0.5, 0.0])


def value(row, scores):
    if row.kind == "operational":
        return row.function(scores, CALIBRATION)
    return row.value(scores, 0.5)


SCALARS = pytest.mark.parametrize(
    "row",
    [row for row in metrics.table() if row.kind not in ("curve", "data")],
    ids=lambda row: row.key,
)


@SCALARS
def test_a_metric_says_whether_it_moves_with_more_unknowns(row, sample):
    rows = np.concatenate([np.arange(90), *[np.flatnonzero(sample.is_unknown)] * 3])
    moved = value(row, sample.take(rows)) != pytest.approx(value(row, sample))
    assert moved == (row.key in _metric_names.MOVES_WITH_PREVALENCE)


@SCALARS
def test_a_metric_says_which_errors_it_counts(row, sample):
    renamed = Scores(
        labels=sample.labels,
        predicted=(sample.predicted + 1) % 3,
        known=sample.known,
        n_classes=3,
    )
    before = value(row, sample)
    moved = value(row, renamed) != pytest.approx(before)
    assert moved == (_metric_names.counts_errors_of(row) != "detection")
    if _metric_names.counts_errors_of(row) == "detection":
        return
    # All known samples below the unknown ones, in the same order among themselves.
    shift = np.where(sample.is_unknown, 0, -100)
    rejected = sample.with_known(sample.known + shift)
    moved = value(row, rejected) != pytest.approx(before)
    assert moved == (_metric_names.counts_errors_of(row) != "classification")
    if _metric_names.counts_errors_of(row) == "both":
        worse = value(row, rejected) - before
        assert worse < 0 if row.better == "higher" else worse > 0


def test_an_alias_stands_for_one_metric():
    rows = metrics.table()
    listed = [alias for row in rows for alias in (row.key, *row.aliases)]
    assert len(set(listed)) == len(listed)
    for row in rows:
        assert all(
            _metric_names.row_of(alias) is row for alias in (row.key, *row.aliases)
        )
    assert _metric_names.row_of("auroc_gap") is None


# Folders


@pytest.fixture
def folder(tmp_path):
    for kind, seed in (("scores", 0), ("calibration", 1)):
        for name, gap in (("msp", 1.0), ("energy", 1.5)):
            test = scores(300, 100, gap=gap, seed=seed)
            (tmp_path / kind).mkdir(exist_ok=True)
            test.save(tmp_path / kind / f"{name}.npz")
    protocols.holdout(10, 6, 4, repeats=3).save(tmp_path / "protocols.json")
    protocols.holdout(10, 2, 8).save(tmp_path / "protocol-open.json")
    reported("inner_score", "auroc").save(tmp_path / "results.csv")
    (tmp_path / "parts.json").write_text('{"train": ["a"], "test": ["b"]}')
    said = {
        "headline": "f_score",
        "thresholds": {"msp": 0.5, "energy": {"value": 0.7, "method": "OSA"}},
        "claim": {"difference": 0.1, "better": "energy", "worse": "msp"},
        "tuned_on": ["validation", "openness"],
    }
    (tmp_path / "study.json").write_text(json.dumps(said))
    return tmp_path


def test_a_folder_is_read_as_a_whole(folder):
    study = read_folder(folder)
    assert list(study.scores) == ["energy", "msp"]
    assert list(study.calibration) == ["energy", "msp"]
    assert len(study.protocols) == 4
    assert study.threshold_of("energy").method == "OSA"
    assert study.claim.better == "energy"
    assert set(study.parts) == {"train", "test"}
    assert len(study.results) == 2


def test_a_folder_gives_the_findings_of_its_content(folder):
    found = {f.code: f.status for f in checks.run_folder(folder)}
    findings = {code for code, status in found.items() if status == "finding"}
    assert {"OSR002", "OSR003", "OSR004", "OSR005", "OSR011"} <= findings
    assert found["OSR001"] == found["OSR006"] == found["OSR009"] == "passed"


def test_a_folder_with_only_scores_will_do(tmp_path):
    (tmp_path / "scores").mkdir()
    scores().save(tmp_path / "scores" / "msp.csv")
    found = {f.code: f.status for f in checks.run_folder(tmp_path)}
    assert found["OSR008"] == "passed"
    assert found["OSR001"] == "not applicable"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("study.json", "{", "is not JSON"),
        ("study.json", "[]", "may hold name, headline, thresholds, claim, tuned_on"),
        ("study.json", '{"headlines": "f1"}', "got headlines"),
        ("study.json", '{"tuned_on": "luck"}', "tuned_on must be one of"),
        ("study.json", '{"claim": {"size": 1}}', "size"),
        ("protocol.json", '{"kind": "other"}', "kind must be 'openset.Protocol'"),
        ("results.csv", "metric,value\nauroc,high\n", "is not a table of results"),
        ("parts.json", "[1]", "parts must be a Mapping"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, file, text, message):
    (tmp_path / file).write_text(text)
    with pytest.raises(ArtefactError, match=message):
        checks.run_folder(tmp_path)


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match="must hold a study"):
        checks.run_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        checks.run_folder(tmp_path / "nowhere")


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "scores").mkdir()
    for ending in ("csv", "npz"):
        scores().save(tmp_path / "scores" / f"msp.{ending}")
    with pytest.raises(ArtefactError, match="'msp' twice"):
        checks.run_folder(tmp_path)
