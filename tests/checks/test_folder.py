"""Study folders: thresholds and where they come from, run folders, damaged files."""

import json

import numpy as np
import pytest

from openset import ArtefactError, Outputs, Rejector, checks, protocols, thresholds
from openset.detectors import MaxLogit
from openset.runs import Cell
from tests.checks.makers import reported, scores

FITTED = MaxLogit().fit()
SEED_OF = {"calibration": 1, "test": 2}


def outputs(seed):
    """Return outputs whose largest logit is the knownness."""
    made = scores(60, 60, seed=seed)
    logits = np.stack([made.known, made.known - 9], axis=1)
    return Outputs(logits=logits, labels=np.minimum(made.labels, 0))


def rejector(seed):
    data = outputs(seed)
    sides = [data.take(data.labels == label) for label in (0, -1)]
    return Rejector.calibrate(FITTED, known=sides[0], surrogate=sides[1])


def status(folder, code="OSR006", **options):
    found = {f.code: f for f in checks.run_folder(folder, **options)}
    return found[code]


@pytest.fixture
def study(tmp_path):
    FITTED.score(outputs(SEED_OF["test"])).save(tmp_path / "scores" / "msp.npz")
    return tmp_path


def in_study_json(study, chosen):
    said = {"thresholds": {"msp": chosen.threshold.to_dict()}}
    (study / "study.json").write_text(json.dumps(said))


def in_a_file_of_its_own(study, chosen):
    (study / "thresholds").mkdir()
    (study / "thresholds" / "msp.json").write_text(chosen.threshold.to_json())


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(SEED_OF["calibration"], "passed"), (SEED_OF["test"], "finding")],
)
@pytest.mark.parametrize(
    "put",
    [
        in_study_json,
        in_a_file_of_its_own,
        lambda study, chosen: chosen.save(study / "rejectors" / "msp"),
        lambda study, chosen: chosen.save(study / "rejector"),  # one for all
    ],
)
def test_a_threshold_is_found_wherever_it_is(study, put, seed, expected):
    put(study, rejector(seed))
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
        ('{"thresholds": {"msp": "nowhere"}}', "of 'msp': threshold must be a number"),
        ('{"thresholds": {"msp": {"n": 3}}}', "got None"),
        (
            '{"thresholds": {"msp": {"value": 1.0, "fingerprint": {"n": 3}}}}',
            "sides",
        ),
    ],
)
def test_a_threshold_that_cannot_be_read_is_named(study, text, message):
    (study / "study.json").write_text(text)
    with pytest.raises(ArtefactError, match=message):
        checks.run_folder(study)


# --- run folders ----------------------------------------------------------------------


def write_cell(folder, i, *, auroc=0.9, test=None, chosen=None):
    """Write one cell as `openset bench` does."""
    names = {"protocol": "digits", "model": "mlp", "method": "", "detector": "msp"}
    row = {"metric": "auroc", "value": auroc, "low": None, "high": None, "n": 9}
    cell = Cell(key=names | {"repeat": i}, rows=[row], threshold=chosen)
    if test is not None:
        test.save(folder / "scores" / f"{cell.id}.npz")
    cell.save(folder)
    return cell.id


@pytest.mark.parametrize("leaks", [False, True])
def test_a_run_folder_is_read_and_the_cell_that_leaks_is_named(tmp_path, leaks):
    for i in range(3):
        test, other = scores(seed=i), scores(seed=10 + i)
        chosen = thresholds.osa(test if leaks and i == 2 else other).to_dict()
        made = write_cell(tmp_path, i, test=test, chosen=chosen)
        other.save(tmp_path / "calibration" / f"{made}.npz")
    found = {f.code: f for f in checks.run_folder(tmp_path)}
    assert found["OSR006"].is_finding == leaks
    assert ("repeat 2" in found["OSR006"].message) == leaks
    assert found["OSR008"].status == found["OSR009"].status == "passed"


def test_scores_of_a_cell_that_is_not_finished_are_left_alone(tmp_path):
    write_cell(tmp_path, 0, test=scores())
    (tmp_path / "scores" / "half.npz").write_bytes(b"still being written")
    assert status(tmp_path, "OSR008").status == "passed"


def test_a_row_that_is_no_result_is_reported(tmp_path):
    write_cell(tmp_path, 0, auroc="high")
    with pytest.raises(ValueError, match=r"json is no cell of this version, or dam"):
        checks.run_folder(tmp_path)


def test_a_large_study_is_sampled_and_says_so(tmp_path):
    for i in range(20):
        chosen = thresholds.osa(scores(seed=99))
        record = chosen.to_dict() | ({"method": "oracle"} if i == 13 else {})
        write_cell(tmp_path, i, test=scores(20, 20, seed=i), chosen=record)
    finding = status(tmp_path, "OSR008", limit=9)
    assert finding.message.endswith("(a sample: 7 of 20 sets of scores)")
    assert "sample" not in status(tmp_path, "OSR008", limit=None).message
    assert "sample" not in status(tmp_path, "OSR003", limit=9).message
    finding = status(tmp_path, limit=1)  # the methods of all thresholds are looked at
    assert finding.is_finding
    assert "repeat 13" in finding.message


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
        ("study.json", "[1]", "cannot convert"),
        ("study.json", '{"headlines": "f1"}', "Did you mean 'headline'"),
        ("study.json", '{"tuned_on": "luck"}', "tuned_on must be one of"),
        ("study.json", '{"claim": {"size": 1}}', "size"),
        ("protocol.json", '{"kind": "other"}', "must be an openset.Protocol"),
        ("results.csv", "metric,value\nauroc,high\n", "is not a table of results"),
        ("parts.json", "[1]", "cannot convert"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, file, text, message):
    (tmp_path / file).write_text(text)
    with pytest.raises(ArtefactError, match=message):
        checks.run_folder(tmp_path)


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match="must be a study"):
        checks.run_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        checks.run_folder(tmp_path / "nowhere")
