"""`openset watch`: files in, a table and an exit code out."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors
from openset.cli import app


def split(seed, n, *, unknown, shift=0.0):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < unknown, -1, rng.integers(0, 3, n))
    logits = rng.normal(size=(n, 3)) + 6 * np.vstack([np.eye(3), np.zeros(3)])[labels]
    return Outputs(logits=logits * (1 - shift), labels=labels)


@pytest.fixture
def files(tmp_path):
    fitted = detectors.MSP().fit(split(0, 100, unknown=0))
    calibration = split(1, 400, unknown=0.3)
    rejector = Rejector.calibrate(fitted, known=calibration)
    rejector.save(tmp_path / "rejector")
    calibration.save(tmp_path / "calibration.npz")
    rejector.score(calibration).save(tmp_path / "scores.csv")
    for name, new in {
        "quiet": split(2, 300, unknown=0),
        "strange": split(3, 300, unknown=0.25),
        "faint": split(4, 300, unknown=0, shift=0.4),
    }.items():
        new.save(tmp_path / f"{name}.npz")
        rejector.score(new).save(tmp_path / f"{name}-scores.npz")
    split(5, 300, unknown=0).save(tmp_path / "folder")
    return tmp_path


def run(files, *arguments, code):
    arguments = ["watch", str(files / "rejector"), *map(str, arguments)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_the_exit_code_says_whether_something_changed(files):
    reference = ["--reference", files / "calibration.npz"]
    quiet = run(files, *reference, files / "quiet.npz", files / "folder", code=0)
    assert quiet.count("ok") == 4
    assert "At most 1% of windows give a false alarm" in quiet
    rare = run(files, "--false-alarms", "1e-6", files / "quiet.npz", code=0)
    assert "At most 0.0001% of windows" in rare
    assert "alarm" in run(files, *reference, files / "strange.npz", code=1)
    both = run(files, *reference, files / "quiet.npz", files / "faint.npz", code=1)
    assert "quiet.npz" in both
    assert "faint.npz" in both


def test_files_of_one_name_are_told_apart(files):
    same = [files / day / "a.npz" for day in ("monday", "tuesday")]
    for path in same:
        path.parent.mkdir()
        split(2, 300, unknown=0).save(path)
    lines = run(files, *same, "--json", code=0).splitlines()
    assert [json.loads(line)["window"] for line in lines] == [*map(str, same)]


def test_a_folder_of_other_shards_is_refused_with_the_remedy(files):
    (files / "shards").mkdir()
    split(2, 300, unknown=0).save(files / "shards" / "part-0.npz")
    with pytest.raises(
        ValueError, match=r"traffic-\*.npz, got neither. Give the files"
    ):
        CliRunner().invoke(
            app,
            ["watch", str(files / "rejector"), str(files / "shards")],
            catch_exceptions=False,
        )


def test_scores_and_outputs_give_the_same_verdict(files):
    outputs = run(
        files,
        "--reference",
        files / "calibration.npz",
        "--json",
        files / "strange.npz",
        code=1,
    )
    scores = run(
        files,
        "--reference",
        files / "scores.csv",
        "--json",
        files / "strange-scores.npz",
        code=1,
    )
    first, second = json.loads(outputs), json.loads(scores)
    assert first.pop("window") == "strange.npz"
    assert second.pop("window") == "strange-scores.npz"
    assert first == second
    assert first["alarm"]
    assert first["unknown_rate"]["p_value"] < 0.005


def test_windows_run_over_the_files(files):
    text = run(
        files,
        "--reference",
        files / "calibration.npz",
        "--window",
        200,
        "--json",
        files / "quiet.npz",
        files / "strange.npz",
        code=1,
    )
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["window"] for row in rows] == ["0…199", "200…399", "400…599"]
    # the second window is half of the strange file already
    assert [row["alarm"] for row in rows] == [False, True, True]


def test_a_reference_of_traffic_counts_whole(files):
    options = ["--reference", files / "strange.npz", "--false-alarms", "0.001"]
    run(files, *options, files / "strange-scores.npz", code=1)
    run(files, *options, "--all", files / "strange-scores.npz", code=0)


def test_what_is_no_file_of_ours_is_refused(files):
    (files / "bad.npz").write_bytes(b"nothing")
    result = CliRunner().invoke(
        app,
        [
            "watch",
            str(files / "rejector"),
            "--reference",
            str(files / "bad.npz"),
            str(files / "quiet.npz"),
        ],
    )
    assert "damaged or not a .npz archive" in str(result.exception)


def test_without_a_reference_the_rejector_remembers_its_knowns(files):
    """Few enough knowns to be kept as they are: the verdicts are the same."""
    names = [files / name for name in ("quiet.npz", "strange.npz", "faint.npz")]
    given = run(
        files, "--reference", files / "calibration.npz", "--json", *names, code=1
    )
    assert run(files, "--json", *names, code=1) == given
    assert run(files, files / "quiet.npz", code=0).count("ok") == 2


def test_all_asks_for_a_reference(files):
    result = CliRunner().invoke(
        app, ["watch", str(files / "rejector"), str(files / "quiet.npz"), "--all"]
    )
    assert "--reference must be given with --all" in str(result.exception)


def test_a_reference_without_knowns_is_answered_in_the_words_of_the_shell(files):
    unlabelled = files / "unlabelled.npz"
    Outputs(logits=split(6, 300, unknown=0).logits).save(unlabelled)
    words = ["--reference", unlabelled, files / "quiet.npz"]
    result = CliRunner().invoke(
        app, ["watch", str(files / "rejector"), *map(str, words)]
    )
    assert str(result.exception) == (
        f"openset watch: {unlabelled} must hold samples labelled as known, got 300 "
        "unknown or unlabelled. Use --all if they were recorded in operation"
    )
    run(files, *words, "--all", code=0)


def test_a_window_that_never_fills_is_no_good_news(files):
    words = ["watch", files / "rejector", "--window", 301, files / "quiet.npz"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert "--window must be at most the number of new samples, so" in str(
        result.exception
    )
    assert result.output == ""


def traffic(files, name, *, shift, seed):
    """Write what a server logs: shards of logits and features without labels."""
    rng = np.random.default_rng(seed)
    for i in range(4):
        logits = split(seed + i, 80, unknown=0).logits
        features = rng.normal(size=(80, 4)) + np.array([shift, 0, 0, 0])
        (files / name).mkdir(exist_ok=True)
        Outputs(logits=logits, features=features).save(
            files / name / f"traffic-2026-11-0{i}.npz"
        )


@pytest.fixture
def with_features(files):
    rng = np.random.default_rng(9)
    known = split(10, 400, unknown=0)
    known = Outputs(
        logits=known.logits, features=rng.normal(size=(400, 4)), labels=known.labels
    )
    fitted = detectors.MSP().fit(known)
    Rejector.calibrate(fitted, known=known, objective="at_tpr").save(files / "rejector")
    known.save(files / "reference.npz")
    traffic(files, "same", shift=0, seed=20)
    traffic(files, "moved", shift=1.5, seed=30)
    return files


def test_a_folder_of_traffic_is_one_window_or_a_stream(with_features):
    files = with_features
    assert run(files, files / "same", code=0).count("320") == 1
    moved = run(files, files / "moved", "--json", code=1)
    (line,) = map(json.loads, moved.splitlines())
    assert line["features"]["p_value"] < 0.01
    assert line["knownness"]["p_value"] > 0.01
    said = run(files, files / "moved", "--no-features", "--json", code=0)
    assert json.loads(said)["features"] is None
    both = [files / "same", files / "moved", "--window", 160, "--json"]
    lines = [json.loads(line) for line in run(files, *both, code=1).splitlines()]
    assert [line["alarm"] for line in lines] == [False, False, True, True]
    for reference in ("reference.npz", "same"):
        chosen = ["--reference", files / reference, "--all"]
        assert "features" in run(files, *chosen, files / "moved", code=1)


def test_the_page_says_what_the_table_says(with_features):
    pytest.importorskip("jinja2", reason="the extra report")
    files = with_features
    page = files / "page.html"
    options = ["--window", 80, "--html", page]
    out = run(files, files / "same", files / "moved", *options, code=1)
    assert out.count("alarm") >= 4
    text = page.read_text("utf-8")
    assert "4 of 8 windows differ from the reference" in text
    assert text.count("<figure>") == 4
    assert text.count('class="alarm"') == 4
    assert "at most 1 %" in text
    assert text.count("://") == text.count("http://www.w3.org/2000/svg")
    run(files, files / "same", files / "moved", *options, code=1)
    assert page.read_text("utf-8") == text
    one = run(files, files / "same", "--html", page, code=0)
    assert "wrote" in one
    text = page.read_text("utf-8")
    assert "<strong>No change found</strong> in the window." in text
    assert "<figure>" not in text
    wrong = CliRunner().invoke(
        app, ["watch", str(files / "rejector"), "x.npz", "--html", "page.pdf"]
    )
    assert "the ending of page.pdf must be one of '.html'" in str(wrong.exception)


def test_the_share_of_unknowns_is_estimated(files):
    """A quarter of the strange samples are unknown."""
    text = run(files, files / "strange.npz", files / "quiet.npz", code=1)
    first, second = [one for one in text.splitlines() if ".npz: about" in one]
    assert first.startswith("strange.npz: about 2")
    assert "are unknown (0.0% to " in second
    rows = run(files, "--json", files / "strange.npz", code=1)
    found = json.loads(rows)["prevalence"]
    assert found["interval"]["low"] <= 0.25 <= found["interval"]["high"]
    assert found["expected"]["unknown_precision"] > 0.8


def test_without_unknowns_in_the_calibration_there_is_no_estimate(files):
    fitted = detectors.MSP().fit(split(0, 100, unknown=0))
    known = split(1, 400, unknown=0)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr")
    rejector.save(files / "rejector")
    text = run(files, "--json", files / "quiet.npz", code=0)
    assert json.loads(text)["prevalence"] is None
    assert "about" not in run(files, files / "quiet.npz", code=0)


def test_invalid_samples_are_counted_and_not_compared(with_features):
    files = with_features
    before = json.loads(run(files, files / "same", "--json", code=0))
    shards = sorted((files / "same").iterdir())
    first = Outputs.load(shards[0])
    bad = {
        "logits": np.concatenate([np.full((3, 3), np.nan), first.logits]),
        "features": np.concatenate([np.zeros((3, 4)), first.features]),
    }
    Outputs(**bad, invalid="keep").save(shards[0])
    only = Outputs(logits=[[np.inf] * 3], features=[[0.0] * 4], invalid="keep")
    for name in ("traffic-0.npz", "traffic-9.npz"):  # the first and the last
        only.save(files / "same" / name)
    found = json.loads(run(files, files / "same", "--json", code=0))
    assert before["n_invalid"] == 0
    assert found.pop("n_invalid") == 5
    assert {**found, "n_invalid": 0} == before
    text = run(files, files / "same", code=0)
    assert "5 of 325 samples are invalid" in " ".join(text.split())
    lines = run(files, files / "same", "--window", 80, "--json", code=0).splitlines()
    assert [json.loads(line)["n_invalid"] for line in lines] == [5, 0, 0, 0]


def test_a_page_says_how_many_samples_are_invalid(files):
    pytest.importorskip("jinja2", reason="the extra report")
    quiet = Outputs.load(files / "quiet.npz")
    logits = np.array(quiet.logits)
    logits[5] = np.nan
    Outputs(logits=logits, invalid="keep").save(files / "odd.npz")
    page = files / "page.html"
    run(files, files / "odd.npz", "--html", page, code=0)
    assert "299 new samples · 1 invalid, not compared" in page.read_text("utf-8")
    run(files, files / "quiet.npz", "--html", page, code=0)
    assert "invalid" not in page.read_text("utf-8")


def test_a_window_of_invalid_samples_alone_is_an_error(files):
    Outputs(logits=np.full((9, 3), np.nan), invalid="keep").save(files / "odd.npz")
    words = ["watch", str(files / "rejector"), str(files / "odd.npz")]
    result = CliRunner().invoke(app, words)
    assert "must be samples with an answer, got invalid ones" in str(result.exception)
