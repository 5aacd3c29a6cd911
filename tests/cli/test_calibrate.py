"""`openset calibrate`: the library's rejector, printed and saved."""

import json
import warnings
from dataclasses import asdict

import pytest

from openset import Outputs, Rejector, detectors, selection

BASE = "calibrate", "--known", "val.npz", "-d", "msp"
FAR = *BASE, "--surrogate", "far.npz"


def calibrated(**options):
    parts = {"known": Outputs.load("val.npz"), "surrogate": Outputs.load("far.npz")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Rejector.calibrate(detectors.MSP().fit(), **parts, **options)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--alpha counts", {"alpha": "counts"}),
        ("--objective at_fpr:fpr=0.1", {"objective": "at_fpr", "fpr": 0.1}),
        ("--sets 0.9", {"sets": 0.9}),
    ],
)
def test_options_reach_the_library(run, run_json, tmp_path, words, options):
    words = *words.split(), "--out", tmp_path / "r"
    found = run_json(*FAR, *words)
    wanted, saved = calibrated(**options), Rejector.load(tmp_path / "r")
    assert str(saved.threshold) == str(wanted.threshold)
    assert found["report"] == json.loads(json.dumps(wanted.report.to_dict()))
    assert found["sets"] == (wanted.sets and asdict(wanted.sets))
    text = " ".join(run(*FAR, *words).split())
    for name, _ in wanted.report.summary:
        assert name.split(",")[0] in text
    assert f"{wanted.report.rates.tpr:.1%}" in text
    for one in wanted.cautions:
        assert f"{one.code} {one.message}" in text


def test_an_alpha_near_one_explains_itself(run, tmp_path):
    words = *FAR, "--accept-risk", "--out", tmp_path / "r"
    text = " ".join(run(*words, "--alpha", 0.98).split())
    assert "2% of the samples to be unknown" in text
    assert "by_cost:missed_unknown=10" in text
    assert "at_tpr" in text
    assert "at_tpr" not in run(*words, "--alpha", 0.8)


def test_several_detectors_are_compared(run, run_json, tmp_path):
    words = "calibrate", "--train", "train.npz", "--known", "val.npz"
    words += ("--surrogate", "near.npz", "--surrogate", "far.npz", "--test", "test.npz")
    found = run_json(*words, "--out", tmp_path / "r")
    train, known, near, far, test = (
        Outputs.load(f"{name}.npz") for name in ("train", "val", "near", "far", "test")
    )
    fitted = {
        name: detectors.make(name).fit(train) for name in selection.suitable(train)[0]
    }
    unknown = Outputs.concat([near, far])
    choice = selection.choose(fitted, known=known, surrogate=unknown)
    assert found["compared"] == json.loads(json.dumps(choice.ranking))
    done = Rejector.load(tmp_path / "r").operate(test)
    assert found["test"]["oosa"] == done.oosa
    assert found["test"]["groups"] == json.loads(json.dumps(done.groups))
    text = run(*words, "--out", tmp_path / "r")
    assert f"chosen: {choice}" in " ".join(text.split())
    for row in done.groups:
        assert f"{row['oosa']:.4f}" in text
    assert f"{done.ccr:.1%} with the right class" in text
    assert f"{done.urr:.1%} of the unknown samples rejected" in text


def test_unknowns_come_from_every_place_and_count_once(run, fails, files, tmp_path):
    def kinds(*words):
        run("calibrate", "-d", "msp", "--known", *words, "--out", tmp_path / "r")
        return {row["group"] for row in Rejector.load(tmp_path / "r").report.groups}

    assert kinds("calibration.npz") == {"near", "far"}
    bare = Outputs.load(files / "far.npz")
    bare = Outputs(logits=bare.logits, classes=bare.classes)
    for folder in "ab":
        bare.save(tmp_path / folder / "new.npz")
    same = [tmp_path / folder / "new.npz" for folder in "ab"]
    given = "--surrogate", same[0], "--surrogate"
    named = {(tmp_path / folder / "new").as_posix() for folder in "ab"}
    assert kinds("val.npz", *given, same[1]) == named
    assert kinds("val.npz", *given, "mixup") == {"new", "synthetic:mixup"}
    again = tmp_path / "b" / ".." / "a" / "new.npz"
    said = fails(*BASE, *given, again, "--out", tmp_path / "r")
    assert "--surrogate must be different files" in said


def test_a_training_folder_has_all_that_is_needed(run, files, tmp_path):
    for name, file in (("train", "train"), ("validation", "val"), ("test", "test")):
        Outputs.load(files / f"{file}.npz").save(tmp_path / f"run/outputs/{name}.npz")
    words = "calibrate", "--run", tmp_path / "run", "--out", tmp_path / "r"
    text = run(*words)
    assert "synthetic:left-out" in text
    assert "On the test data" in text
    run(*words, "--surrogate", "far.npz")
    assert Rejector.load(tmp_path / "r").report.worst_group == "far"


def test_a_threshold_that_collapses_is_not_saved_unless_the_risk_is_taken(
    run, fails, files, tmp_path
):
    known = Outputs.load(files / "val.npz")
    known.as_unknown().save(tmp_path / "same.npz")
    words = *BASE, "--surrogate", tmp_path / "same.npz", "--alpha", "0.99"
    words += ("--out", tmp_path / "r")
    assert "CAL002" in fails(*words)
    assert not (tmp_path / "r").exists()
    run(*words, "--accept-risk")
    assert "CAL002" in Rejector.load(tmp_path / "r").report.codes
