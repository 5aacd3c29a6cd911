"""Study folders: thresholds and where they come from, run folders, too many scores."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import ArtefactError, Outputs, Rejector, Scores, checks, thresholds
from openset.checks import _study_folder
from openset.checks._score_files import ScoreFiles, sample
from openset.checks._study_folder import read_folder
from openset.cli import app
from openset.detectors import MSP
from openset.runs import Cell
from tests.unit.checks.makers import scores

SEED_OF = {"calibration": 1, "test": 2}


def outputs(seed, *, n=60, unknown=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    logits = 3 * np.eye(3)[labels] + rng.normal(size=(n, 3))
    known = Outputs(logits=logits, labels=labels)
    if not unknown:
        return known
    strange = Outputs(logits=rng.normal(size=(n, 3)), labels=np.full(n, -1))
    return Outputs.concat([known, strange])


def rejector(seed):
    data = outputs(seed)
    is_unknown = data.labels == -1
    return Rejector.calibrate(
        MSP().fit(outputs(0, unknown=False)),
        known=data.take(~is_unknown),
        surrogate=data.take(is_unknown),
    )


def status(folder, code="OSR006", **options):
    found = {f.code: f for f in checks.run_folder(folder, **options)}
    return found[code]


@pytest.fixture
def study(tmp_path):
    test = MSP().fit(outputs(0, unknown=False)).score(outputs(SEED_OF["test"]))
    test.save(tmp_path / "scores" / "msp.npz")
    return tmp_path


honestly_and_not = pytest.mark.parametrize(
    ("chosen_on", "expected"), [("calibration", "passed"), ("test", "finding")]
)


@honestly_and_not
def test_a_threshold_is_found_in_study_json(study, chosen_on, expected):
    chosen = rejector(SEED_OF[chosen_on]).threshold
    said = {"thresholds": {"msp": chosen.to_dict()}}
    (study / "study.json").write_text(json.dumps(said))
    assert status(study).status == expected


@honestly_and_not
def test_a_threshold_is_found_in_a_file_of_its_own(study, chosen_on, expected):
    (study / "thresholds").mkdir()
    chosen = rejector(SEED_OF[chosen_on]).threshold
    (study / "thresholds" / "msp.json").write_text(chosen.to_json())
    assert status(study).status == expected


@honestly_and_not
def test_a_threshold_is_found_in_the_manifest_of_a_rejector(study, chosen_on, expected):
    rejector(SEED_OF[chosen_on]).save(study / "rejectors" / "msp")
    assert status(study).status == expected


@honestly_and_not
def test_a_threshold_is_found_in_one_rejector_for_all(study, chosen_on, expected):
    rejector(SEED_OF[chosen_on]).save(study / "rejector")
    assert status(study).status == expected


@pytest.mark.parametrize("where", ["elsewhere", "elsewhere/manifest.json"])
@honestly_and_not
def test_a_threshold_is_found_in_a_folder_study_json_names(
    study, chosen_on, expected, where
):
    rejector(SEED_OF[chosen_on]).save(study / "elsewhere")
    said = {"thresholds": {"msp": where}}
    (study / "study.json").write_text(json.dumps(said))
    assert status(study).status == expected


@honestly_and_not
def test_a_threshold_is_found_as_the_command_line_saves_it(study, chosen_on, expected):
    fit, known = study / "fit.npz", study / "known.npz"
    outputs(0, unknown=False).save(fit)
    outputs(SEED_OF[chosen_on]).save(known)
    out = str(study / "rejectors" / "msp")
    command = [
        "calibrate",
        "--train",
        str(fit),
        "--known",
        str(known),
        "--detector",
        "msp",
    ]
    done = CliRunner().invoke(app, [*command, "--out", out])
    assert done.exit_code == 0, done.output
    assert status(study).status == expected


def test_two_thresholds_of_one_name_must_agree(study):
    chosen = rejector(1)
    chosen.save(study / "rejectors" / "msp")
    said = {"thresholds": {"msp": chosen.threshold.value}}
    (study / "study.json").write_text(json.dumps(said))
    assert status(study).status == "passed"
    said = {"thresholds": {"msp": 0.123}}
    (study / "study.json").write_text(json.dumps(said))
    with pytest.raises(ArtefactError, match=r"one threshold of 'msp', got 0\.123 and"):
        checks.run_folder(study)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"thresholds": {"msp": "nowhere"}}', "no such threshold or rejector"),
        ('{"thresholds": {"msp": "study.json"}}', "study.json must hold a threshold"),
        (
            '{"thresholds": {"msp": {"value": 1.0, "fingerprint": {"n": 3}}}}',
            "fingerprint must be that of a Threshold",
        ),
    ],
)
def test_a_threshold_that_cannot_be_read_is_named(study, text, message):
    (study / "study.json").write_text(text)
    with pytest.raises(ArtefactError, match=message):
        checks.run_folder(study)


def test_a_damaged_manifest_is_named(study):
    rejector(1).save(study / "rejectors" / "msp")
    path = study / "rejectors" / "msp" / "manifest.json"
    path.write_text("{")
    with pytest.raises(ArtefactError, match=r"manifest.json is not JSON"):
        checks.run_folder(study)


# --- run folders ----------------------------------------------------------------------


def write_cell(folder, i, *, detector="msp", auroc=0.9, test=None, chosen=None):
    """Write one cell as `openset bench` does."""
    key = {
        "protocol": "digits",
        "repeat": i,
        "model": "mlp",
        "method": "",
        "detector": detector,
        "seed": 0,
    }
    row = {"metric": "auroc", "value": auroc, "low": None, "high": None, "n": 9}
    threshold = None if chosen is None else chosen.to_dict()
    cell = Cell(key=key, rows=[row], threshold=threshold)
    if test is not None:
        test.save(folder / "scores" / f"{cell.id}.npz")
    cell.save(folder)
    return cell.id


def test_a_run_folder_is_read(tmp_path):
    ids = []
    for i in range(3):
        test, other = scores(seed=i), scores(seed=10 + i)
        ids.append(write_cell(tmp_path, i, test=test, chosen=thresholds.osa(other)))
        other.save(tmp_path / "calibration" / f"{ids[-1]}.npz")
    study = read_folder(tmp_path)
    assert len(study.scores) == len(study.calibration) == len(study.thresholds) == 3
    first = next(iter(study.scores))
    assert first.startswith(next(iter(sorted(ids))))
    assert "(mlp, msp, digits, repeat " in first
    assert study.calibration_of(first) is not None
    assert study.threshold_of(first).method == "osa"
    assert [row.metric for row in study.results] == ["auroc"] * 3
    found = {f.code: f.status for f in checks.run_folder(tmp_path)}
    assert found["OSR006"] == found["OSR008"] == found["OSR009"] == "passed"


def test_the_cell_that_leaks_is_named(tmp_path):
    for i in range(3):
        test = scores(seed=i)
        chosen = thresholds.osa(test if i == 2 else scores(seed=9))
        write_cell(tmp_path, i, test=test, chosen=chosen)
    finding = status(tmp_path)
    assert finding.is_finding
    assert "repeat 2" in finding.message


def test_scores_of_a_cell_that_is_not_finished_are_left_alone(tmp_path):
    write_cell(tmp_path, 0, test=scores())
    (tmp_path / "scores" / "half.npz").write_bytes(b"still being written")
    assert len(read_folder(tmp_path).scores) == 1
    assert status(tmp_path, "OSR008").status == "passed"


@pytest.mark.parametrize(
    "text", ["[]", '{"kind": "other"}', '{"kind": "openset.Cell"}']
)
def test_a_file_that_is_no_cell_is_named(tmp_path, text):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "a.json").write_text(text)
    with pytest.raises(ArtefactError, match=r"a\.json"):
        checks.run_folder(tmp_path)


def test_a_row_that_is_no_result_is_reported(tmp_path):
    write_cell(tmp_path, 0, auroc="high")
    with pytest.raises(ArtefactError, match=r"a number as value, got .*high"):
        checks.run_folder(tmp_path)


@pytest.fixture
def reads(monkeypatch):
    """Count the score files that are read."""
    paths, load = [], Scores.load

    def counted(path):
        paths.append(path)
        return load(path)

    monkeypatch.setattr(Scores, "load", counted)
    return paths


def test_nothing_is_read_before_a_check_asks_for_it(tmp_path, reads):
    for i in range(5):
        write_cell(tmp_path, i, test=scores(20, 20, seed=i))
    study = read_folder(tmp_path)
    assert len(study.scores) == 5
    assert reads == []
    assert len(study.scores[next(iter(study.scores))]) == 40
    assert len(reads) == 1


def test_a_large_study_is_sampled_and_says_so(tmp_path, reads):
    for i in range(60):
        detector = "rare" if i == 7 else ("msp", "energy")[i % 2]
        write_cell(tmp_path, i, detector=detector, test=scores(20, 20, seed=i))
    study = read_folder(tmp_path, limit=9)
    assert len(study.scores) == 9
    assert study.n_left_out == 51
    assert len(study.results) == 60  # results are looked at in full
    for detector in ("rare", "msp", "energy"):
        assert any(f"mlp, {detector}," in name for name in study.scores)
    finding = status(tmp_path, "OSR008", limit=9)
    assert finding.message.endswith("(a sample: 9 of 60 sets of scores)")
    assert len(set(reads)) == 9
    assert "sample" not in status(tmp_path, "OSR008", limit=None).message
    assert "sample" not in status(tmp_path, "OSR003", limit=9).message


def test_the_sample_is_always_the_same_and_grows_with_its_size():
    strata = {f"cell {i}": f"detector {i % 3}" for i in range(100)}
    first = sample(strata, 12)
    assert first == sample(dict(reversed(strata.items())), 12)[::-1]
    assert len(first) == 12
    assert set(first) <= set(sample(strata, 24))
    counts = [sum(strata[name] == f"detector {i}" for name in first) for i in range(3)]
    assert counts == [4, 4, 4]


@pytest.mark.parametrize("limit", [None, 3, 100])
def test_few_names_are_all_taken(limit):
    assert sample({"a": "", "b": "", "c": ""}, limit) == ["a", "b", "c"]


def test_every_name_is_sampled_equally_often():
    names = [f"{i:04d}" for i in range(400)]
    first = sample(dict.fromkeys(names, ""), 100)
    # Not the first hundred, not every fourth: seeds and repeats follow patterns.
    assert 15 <= sum(int(name) % 4 == 0 for name in first) <= 35
    assert 15 <= sum(int(name) < 100 for name in first) <= 35


def test_oracles_are_found_outside_the_sample(tmp_path):
    for i in range(20):
        chosen = thresholds.osa(scores(seed=99))
        if i == 13:
            record = chosen.to_dict() | {"method": "oracle"}
            chosen = SimpleNamespace(to_dict=lambda record=record: record)
        write_cell(tmp_path, i, test=scores(20, 20, seed=i), chosen=chosen)
    finding = status(tmp_path, limit=1)
    assert finding.is_finding
    assert "repeat 13" in finding.message


def test_memory_is_bounded(tmp_path, reads, monkeypatch):
    paths = {}
    for i in range(4):
        paths[str(i)] = tmp_path / f"{i}.npz"
        scores(50, 50, seed=i).save(paths[str(i)])
    monkeypatch.setattr(
        "openset.checks._score_files.BUDGET", 5000
    )  # two of 2,400 bytes
    files = ScoreFiles(paths)
    assert len(files) == len(list(files)) == 4
    for name in ("0", "1", "1", "0"):
        files[name]
    assert len(reads) == 2
    files["2"]
    files["0"]
    assert len(reads) == 3
    files["1"]  # had to make room
    assert len(reads) == 4


def test_the_default_limit_is_the_documented_one():
    assert _study_folder.LIMIT == 200
