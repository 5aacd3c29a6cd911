"""`openset calibrate` and `openset predict`, as a user runs them."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import (
    Outputs,
    Rejector,
    Scores,
    detectors,
    magnitudes,
    thresholds,
)
from openset.cli import app, main
from openset.outputs import replaced
from tests.rejector.data import drawn


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    drawn(300, seed=1).save(folder / "train.npz")
    drawn(200, seed=2).save(folder / "val.npz")
    near, far = (drawn(100, seed=s, unknown=True) for s in (3, 4))
    near.save(folder / "near.npz")
    Outputs(
        logits=far.logits,
        features=far.features,
        labels=far.labels,
        groups=np.repeat(["far", "further"], 50),
    ).save(folder / "far.npz")
    drawn(40, seed=5, labelled=False).save(folder / "new.npz")
    test = Outputs.concat([drawn(80, seed=6), drawn(80, seed=7, unknown=True)])
    test.save(folder / "test.npz")
    return folder


def run(data, *words):
    """Run a command in the folder of the data; errors surface as they are."""
    words = [
        str(data / w) if w.endswith(".npz") and (data / w).exists() else w
        for w in words
    ]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def by_msp(out):
    return ["calibrate", "--known", "val.npz", "-d", "msp", "--out", str(out)]


def test_surrogates_of_one_name_in_two_folders_are_two_kinds(data, tmp_path):
    base = by_msp(tmp_path / "r")
    for folder, seed in (("a", 3), ("b", 4)):
        (tmp_path / folder).mkdir()
        drawn(100, seed=seed, unknown=True).save(tmp_path / folder / "far.npz")
        base += ["--surrogate", str(tmp_path / folder / "far.npz")]
    run(data, *base)
    report = Rejector.load(tmp_path / "r").report
    names = {(tmp_path / folder / "far").as_posix() for folder in "ab"}
    assert {row["group"] for row in report.groups} == names


def test_a_surrogate_is_not_counted_twice(data, tmp_path):
    base = by_msp(tmp_path / "r")
    same = data / ".." / data.name / "near.npz"
    with pytest.raises(ValueError, match=r"must be different files, got .*near.npz"):
        run(data, *base, "--surrogate", "near.npz", "--surrogate", str(same))


def test_calibrate_then_predict(data, tmp_path):
    out = tmp_path / "rejector"
    done = run(
        data, "calibrate", "--train", "train.npz", "--detector", "postmax",
        "--known", "val.npz", "--surrogate", "far.npz", "--out", str(out),
    )  # fmt: skip
    assert done.exit_code == 0
    for word in ("detector", "postmax", "threshold", "further", "(worst)", "wrote"):
        assert word in done.stdout
    known, far = (Outputs.load(data / f"{name}.npz") for name in ("val", "far"))
    sentence = magnitudes.measure({"known": known, "far": far}).sentence()
    assert sentence in " ".join(done.stdout.split())
    rejector = Rejector.load(out)
    assert rejector.threshold.n == (200, 100)
    expected = rejector.predict(Outputs.load(data / "new.npz"))

    shown = run(data, "predict", str(out), "new.npz")
    n_unknown = int((expected == -1).sum())
    assert f"{n_unknown} of 40 samples unknown" in shown.stdout
    assert "and 30 more" in shown.stdout

    table = list(
        csv.DictReader(
            io.StringIO(run(data, "predict", str(out), "new.npz", "--csv").stdout)
        )
    )
    assert [int(row["decision"]) for row in table] == expected.tolist()
    assert all((row["name"] == "unknown") == (row["decision"] == "-1") for row in table)
    assert all((float(r["margin"]) >= 0) == (r["decision"] != "-1") for r in table)

    for name in ("decisions.csv", "decisions.npz"):
        assert run(data, "predict", str(out), "new.npz", "--out", str(tmp_path / name))
    assert (tmp_path / "decisions.csv").read_text().count("\n") == 41
    with np.load(tmp_path / "decisions.npz") as arrays:
        np.testing.assert_array_equal(arrays["decision"], expected)


def test_several_detectors_are_compared_and_the_test_set_reported(data, tmp_path):
    done = run(
        data, "calibrate", "--train", "train.npz", "--detector", "msp",
        "--detector", "postmax", "--known", "val.npz", "--surrogate", "near.npz",
        "--surrogate", "far.npz", "--test", "test.npz", "--out", str(tmp_path / "r"),
    )  # fmt: skip
    assert done.exit_code == 0
    for word in ("alpha 0.5", "consensus", "chosen:", "OOSA", "oracle", "near"):
        assert word in done.stdout
    assert Rejector.load(tmp_path / "r").threshold.alpha == 0.5
    assert "choosing one" not in done.stdout  # a row of the other rule


def test_without_unknowns_there_is_conformal_and_there_is_mixup(data, tmp_path):
    base = ["calibrate", "--train", "train.npz", "--known", "val.npz", "--out"]
    done = run(
        data, *base, str(tmp_path / "a"), "--objective", "conformal", "--target", "0.1"
    )
    assert done.exit_code == 0
    assert Rejector.load(tmp_path / "a").threshold.target == 0.1
    done = run(data, *base, str(tmp_path / "b"), "--surrogate", "mixup")
    text = " ".join(done.stdout.split())
    assert "CAL005 the surrogate unknowns are synthetic (mixup)" in text
    assert "Feature magnitude" not in text  # made-up features say nothing


def test_unknowns_in_the_validation_file_are_the_surrogate(data, tmp_path):
    done = run(
        data, "calibrate", "--train", "train.npz", "--known", "test.npz",
        "--detector", "msp", "--detector", "postmax", "--out", str(tmp_path / "r"),
    )  # fmt: skip
    assert done.exit_code == 0
    assert Rejector.load(tmp_path / "r").threshold.n == (80, 80)


def test_prices_are_given_one_by_one(data, tmp_path):
    base = ("calibrate", "--train", "train.npz", "--known", "val.npz", "--surrogate")
    base += ("far.npz", "-d", "postmax", "--objective", "by_cost", "--out")
    known, far = (Outputs.load(data / f"{name}.npz") for name in ("val", "far"))
    fitted = detectors.make("postmax").fit(Outputs.load(data / "train.npz"))
    expected = Rejector.calibrate(
        fitted, known=known, surrogate=far, objective="by_cost", missed_unknown=5
    )
    given = ("--missed-unknown", "5")
    assert run(data, *base, str(tmp_path / "r"), *given).exit_code == 0
    found = Rejector.load(tmp_path / "r").threshold
    assert found.value == expected.threshold.value
    free = ("--missed-unknown", "0", "--accept-risk")  # then everything is accepted
    free = run(data, *base, str(tmp_path / "r"), *free)
    assert free.exit_code == 0
    assert Rejector.load(tmp_path / "r").threshold.value < expected.threshold.value


def test_a_test_set_of_one_side_is_reported_as_far_as_it_goes(data, tmp_path):
    base = ("calibrate", "--train", "train.npz", "--known", "val.npz", "--surrogate")
    base += ("far.npz", "--out", str(tmp_path / "r"), "--test")
    drawn(70, seed=8).save(tmp_path / "known.npz")
    for path, words in (
        (str(tmp_path / "known.npz"), "of 70 known samples accepted"),
        ("near.npz", "of 100 unknown samples rejected"),
    ):
        done = run(data, *base, path)
        assert done.exit_code == 0
        assert words in " ".join(done.stdout.split())
    with pytest.raises(ValueError, match="--test must be labelled"):
        run(data, *base, "new.npz")


def test_what_the_test_data_cost_is_said(data, tmp_path):
    parts = [drawn(70, seed=8), Outputs.load(data / "near.npz")]
    both = Outputs.concat([Outputs(logits=x.logits, labels=x.labels) for x in parts])
    both.save(tmp_path / "both.npz")
    base = ("calibrate", "--train", "train.npz", "--known", "val.npz", "--surrogate")
    base += ("far.npz", "--objective", "by_cost", "--missed-unknown", "7", "-d", "msp")
    base += ("--out", str(tmp_path / "r"), "--test")
    for name, alpha in (("both", 0.3), ("both", None)):
        share = () if alpha is None else ("--alpha", str(alpha))
        said = run(data, *base, str(tmp_path / f"{name}.npz"), *share).stdout
        rejector = Rejector.load(tmp_path / "r")
        test = Outputs.load(tmp_path / f"{name}.npz")
        wrong = rejector.predict(test) != test.labels
        price = np.where(test.labels < 0, 7.0, 1.0)
        paid, is_unknown = wrong * price, test.labels < 0
        weight = 0.5 if alpha is None else alpha
        cost = weight * paid[~is_unknown].mean()
        cost += (1 - weight) * paid[is_unknown].mean()
        assert f"Cost of a decision on the test data: {cost:.4g}" in said
        assert "best threshold for these" in said


def test_samples_the_detector_was_fitted_on_are_refused(data, tmp_path):
    base = ("calibrate", "--train", "train.npz", "--surrogate", "far.npz")
    base += ("--out", str(tmp_path / "r"), "--known")
    assert run(data, *base, "val.npz").stderr == ""
    for options in ((), ("-d", "msp"), ("-d", "osnn")):
        with pytest.raises(ValueError, match=r"--known must .* got 300 of 300 known"):
            run(data, *base, "train.npz", *options)


def test_mistakes_are_one_line(data, monkeypatch, capsys):
    monkeypatch.chdir(data)

    def fails(*words):
        monkeypatch.setattr("sys.argv", ["openset", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 2
        return " ".join(capsys.readouterr().err.split())

    base = ("calibrate", "--train", "train.npz", "--known", "val.npz", "--out", "r")
    assert "--surrogate must be given for --objective osa" in fails(*base)
    swapped = ("calibrate", "--train", "train.npz", "--known", "near.npz")
    swapped += ("--surrogate", "val.npz", "--out", "r")
    assert "Are --known and --surrogate swapped?" in fails(*swapped)
    one = (*base, "--surrogate", "near.npz")
    # before anything is fitted
    monkeypatch.setattr("openset.cli.calibrate.recipe", None)
    assert "--alpha must be a number in [0, 1] or counts, got 2" in fails(
        *one, "--alpha", "2"
    )
    assert "objective must be one of" in fails(*one, "--objective", "oza")
    assert "--out must be a new folder" in fails(*one, "--out", ".")
    monkeypatch.undo()
    monkeypatch.chdir(data)
    assert "knn does not take these options" in fails(*one, "-d", "knn:m=5")
    assert "--target can only be used with" in fails(*base, "--target", "0.1")
    assert "costs can only be given with" in fails(*one, "--confusion", "2")
    assert "--surrogate must be given" in fails(
        *base, "--detector", "msp", "--detector", "postmax"
    )
    misspelt = fails(*base, "--surrogate", "mixpu")
    assert "or one of mixup, left-out, got mixpu" in misspelt
    assert "no such folder: nowhere" in fails("predict", "nowhere", "new.npz")
    assert not (data / "r").exists()


def test_the_installed_command_ends_with_status_two_and_no_traceback(data):
    command = [sys.executable, "-c", "from openset.cli import main; main()"]
    done = subprocess.run(  # noqa: S603
        [*command, "predict", "nowhere", "new.npz"],
        capture_output=True,
        text=True,
        cwd=data,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: openset predict: no such folder")
    assert "Traceback" not in done.stderr


def test_training_labels_of_other_classes_are_warned_of(data, tmp_path):
    train = Outputs.load(data / "train.npz")
    replaced(train, labels=(train.labels + 1) % 4).save(tmp_path / "other.npz")
    words = ["calibrate", "--known", "val.npz", "--surrogate", "far.npz", "-d", "knn"]
    words += ["--out", str(tmp_path / "r"), "--train"]
    said = " ".join(run(data, *words, str(tmp_path / "other.npz")).stderr.split())
    assert "The predicted class is right for only" in said
    assert "right for only" not in run(data, *words, "train.npz").stderr


def test_help_shows_examples(data):
    for name in ("calibrate", "predict"):
        text = run(data, name, "--help").stdout
        assert "Examples" in text
        assert f"openset {name}" in text


def test_cautions_are_printed_kept_and_repeated(data, tmp_path):
    out = tmp_path / "r"
    words = ("calibrate", "--known", "val.npz", "-d", "msp")
    done = run(data, *words, "--surrogate", "near.npz", "--out", str(out))
    assert done.exit_code == 0
    assert "(alpha 0.5)" in done.stdout
    codes = [one.code for one in Rejector.load(out).cautions]
    assert all(code in done.stdout for code in codes)
    again = run(data, "predict", str(out), "new.npz")
    assert all(code in again.stderr for code in codes)
    assert codes[0] not in again.stdout  # which may be piped on


def test_a_threshold_that_collapses_is_not_saved_unless_the_risk_is_taken(
    data, tmp_path, monkeypatch, capsys
):
    known = Outputs.load(data / "val.npz")
    # Unknowns that look just like knowns, of which nearly all samples are expected.
    unknown = known.as_unknown()
    unknown.save(tmp_path / "same.npz")
    out = tmp_path / "r"
    words = ["openset", "calibrate", "--train", str(data / "train.npz"), "-d", "msp"]
    words += ["--known", str(data / "val.npz"), "--alpha", "0.99", "--out", str(out)]
    words += ["--surrogate", str(tmp_path / "same.npz")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert "CAL002" in said.out
    assert "or take the threshold as it is: --accept-risk" in said.err
    assert not out.exists()
    monkeypatch.setattr(sys, "argv", [*words, "--accept-risk"])
    main_ends_well(main)
    assert "CAL002" in [one.code for one in Rejector.load(out).cautions]


def main_ends_well(command):
    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code in (None, 0)


def test_the_default_offers_what_the_outputs_suit_and_says_so(data, tmp_path):
    out = tmp_path / "rejector"
    base = ("calibrate", "--known", "val.npz", "--surrogate", "far.npz", "--out")
    done = run(data, *base, str(out), "--train", "train.npz", "--test", "test.npz")
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "detectors (auto): msp, maxlogit, rmds and osnn: vim needs" in said
    assert "Open-set accuracy on held-out kinds, alpha 0.5" in said
    assert "chosen: " in said
    without = run(data, *base, str(tmp_path / "alone"))
    said = " ".join(without.stdout.split())
    assert "msp and maxlogit: rmds, vim and osnn need training outputs" in said
    rejector = Rejector.load(tmp_path / "alone")
    assert rejector.fitted.detector.name in {"msp", "maxlogit"}
    again = run(data, "predict", str(tmp_path / "alone"), "new.npz", "--csv")
    assert again.exit_code == 0
    none = run(
        data, "calibrate", "--train", "train.npz", "--known", "val.npz", "--objective",
        "conformal", "--target", "0.1", "--out", str(tmp_path / "conformal"),
    )  # fmt: skip
    assert "msp, as there are no unknown samples to compare" in none.stdout


def test_a_detector_of_auto_that_refuses_the_outputs_is_left_out(tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 8))

    def save(name, n, shift, *, unknown=False):
        labels = rng.integers(0, 3, n)
        features = np.zeros((n, 8))  # no residual for ViM: two of eight are used
        features[:, :2] = rng.normal(size=(n, 2)) + shift * weight[labels, :2]
        parts = {"logits": features @ weight.T, "features": features}
        parts |= {"weight": weight, "bias": np.zeros(3)}
        given = np.full(n, -1) if unknown else labels
        Outputs(labels=given, **parts).save(tmp_path / name)

    save("train.npz", 200, 3)
    save("val.npz", 80, 3)
    save("far.npz", 80, 0, unknown=True)
    words = ["calibrate", "--train", "train.npz", "--known", "val.npz"]
    words += ["--surrogate", "far.npz", "--accept-risk", "--out", str(tmp_path / "r")]
    done = run(tmp_path, *words)
    said = " ".join(done.stdout.split())
    assert "vim is left out: ViM.fit: features must be spread over" in said
    assert "chosen: " in said
    assert Rejector.load(tmp_path / "r").threshold is not None
    with pytest.raises(ValueError, match=r"ViM\.fit: features must be spread over"):
        run(tmp_path, *words, "-d", "vim")


def test_a_detector_that_learns_asks_for_training_outputs(data, tmp_path):
    base = ("calibrate", "--known", "val.npz", "--surrogate", "far.npz", "--out")
    refused = run(data, *base, str(tmp_path / "r"), "-d", "msp", "-d", "knn")
    assert refused.exit_code == 2
    said = " ".join(refused.output.replace("│", " ").split())
    assert "--train must be given for knn, got none" in said
    assert not (tmp_path / "r").exists()
    done = run(data, *base, str(tmp_path / "r"), "-d", "energy")
    assert done.exit_code == 0
    score = ("score", "test.npz", "--out", str(tmp_path / "scores.npz"), "-d")
    assert run(data, *score, "energy").exit_code == 0
    known = detectors.make("energy").fit().known(Outputs.load(data / "test.npz"))
    np.testing.assert_array_equal(Scores.load(tmp_path / "scores.npz").known, known)
    assert run(data, *score, "knn").exit_code == 2


def test_a_training_folder_has_all_that_is_needed(data, tmp_path):
    for name, file in (("train", "train"), ("validation", "val"), ("test", "test")):
        Outputs.load(data / f"{file}.npz").save(tmp_path / f"run/outputs/{name}.npz")
    base = ("calibrate", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "r"))
    done = run(data, *base)
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "known classes, left out in turn, stand in for unknowns" in said
    assert "On the test data, alpha 0.5" in said
    given = run(data, *base, "--surrogate", "far.npz")
    assert "no --surrogate given" not in given.stdout
    (tmp_path / "run/outputs/validation.npz").unlink()
    with pytest.raises(FileNotFoundError, match="Give --known, or train with"):
        run(data, *base)
    with pytest.raises(FileNotFoundError, match=r"which has no outputs/train\.npz"):
        run(data, "calibrate", "--run", str(tmp_path), "--out", str(tmp_path / "q"))
    nothing = run(data, "calibrate", "--out", str(tmp_path / "q"))
    assert nothing.exit_code == 2
    assert "--known must be given" in " ".join(nothing.output.split())


def test_sets_are_calibrated_saved_and_printed(data, tmp_path):
    out = tmp_path / "rejector"
    words = [
        "calibrate", "--detector", "energy", "--known", "val.npz", "--surrogate",
        "far.npz", "--out", str(out),
    ]  # fmt: skip
    done = run(data, *words, "--sets", "0.95")
    assert done.exit_code == 0
    assert "the set contains the right class for 0.95" in done.stdout
    assert "if 1% of all samples are unknown" in " ".join(done.stdout.split())
    rejector = Rejector.load(out)
    expected = [
        "|".join("abcd"[c] for c in one)
        for one in rejector.decide(Outputs.load(data / "new.npz")).set_classes
    ]
    assert {len(one) for one in expected} > {0, 1}
    done = run(data, "predict", str(out), "new.npz", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["set"] for row in rows] == expected
    assert "set" in run(data, "predict", str(out), "new.npz").stdout
    run(data, "predict", str(out), "new.npz", "--out", str(tmp_path / "d.npz"))
    with np.load(tmp_path / "d.npz") as arrays:
        assert arrays["set"].sum(axis=1).tolist() == [
            len(one.split("|")) if one else 0 for one in expected
        ]


def test_a_folder_of_shards_gives_a_file_each(data, tmp_path):
    out = str(tmp_path / "rejector")
    run(
        data, "calibrate", "--train", "train.npz", "--detector", "msp",
        "--known", "val.npz", "--surrogate", "far.npz", "--out", out,
    )  # fmt: skip
    new = Outputs.load(data / "new.npz")
    new.take(slice(0, 25)).save(tmp_path / "shards" / "a.npz")
    new.take(slice(25, 40)).save(tmp_path / "shards" / "b")
    words = ["predict", out, str(tmp_path / "shards"), "--backend", "sequential"]
    options = ["--out", str(tmp_path / "decided"), "--format", "npz"]
    done = run(data, *words, *options)
    assert done.exit_code == 0
    assert "2 of 2 shards" in done.stdout
    found = [np.load(tmp_path / "decided" / f"{name}.npz")["decision"] for name in "ab"]
    expected = Rejector.load(out).predict(new)
    assert np.array_equal(np.concatenate(found), expected)
    (tmp_path / "shards" / "c.npz").write_bytes(b"x")
    done = run(data, *words, *options)
    assert done.exit_code == 1
    assert "failed: c: ArtefactError" in done.stderr
    refused = run(data, "predict", out, "new.npz", "--jobs", "2")
    assert refused.exit_code == 2
    assert "--jobs can only be used" in refused.stderr
    refused = run(data, *words)
    assert "--out must be a folder" in refused.stderr


def test_a_training_file_that_no_detector_can_use_is_refused(data, tmp_path):
    """The detectors of ``auto`` are left out one by one; without any it ends."""
    words = ("calibrate", "--train", "near.npz", "--known", "val.npz", "--surrogate")
    with pytest.raises(ValueError, match="outputs must be known samples only"):
        run(data, *words, "far.npz", "--out", str(tmp_path / "rejector"))
    assert not (tmp_path / "rejector").exists()


def test_help_explains_every_objective(data):
    text = run(data, "calibrate", "--help").output
    assert all(name in text for name in thresholds.objectives())


@pytest.fixture
def spoilt(data, tmp_path):
    """Return a file with two samples that have no answer, and a rejector."""
    new = Outputs.load(data / "new.npz")
    logits = np.array(new.logits)
    logits[3, 1], logits[20] = np.nan, [np.inf, np.inf, 0, 0]
    ids = [f"{i}.png" for i in range(40)]
    path = Outputs(logits=logits, ids=ids, invalid="keep").save(tmp_path / "odd.npz")
    run(data, *by_msp(tmp_path / "r"), "--surrogate", str(data / "near.npz"))
    return tmp_path / "r", path


def test_invalid_samples_are_an_error_that_names_the_remedy(spoilt):
    rejector, path = spoilt
    with pytest.raises(ValueError, match=r"(?s)row 3.*To .*, use --invalid reject"):
        run(path.parent, "predict", str(rejector), str(path))
    with pytest.raises(ValueError, match="--invalid must be one of 'error', 'reject'"):
        run(path.parent, "predict", str(rejector), str(path), "--invalid", "drop")


def test_invalid_samples_are_rejected_marked_and_counted(spoilt, tmp_path):
    rejector, path = spoilt
    base = ["predict", str(rejector), str(path), "--invalid", "reject"]
    new = Outputs.load(path, invalid="keep")
    others = ~new.is_invalid
    alone = Rejector.load(rejector).decide(new.take(others))
    result = run(tmp_path, *base, "--csv")
    said = "2 of 40 samples are invalid and answered with unknown; the first: row 3,"
    assert said in " ".join(result.stderr.split())
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [r["row"] for r in rows if r["invalid"] == "True"] == ["3", "20"]
    assert (rows[3]["decision"], rows[3]["name"]) == ("-1", "unknown")
    assert (rows[3]["predicted"], rows[3]["known"]) == ("-1", "nan")
    known = [float(r["known"]) for r in rows if r["invalid"] == "False"]
    assert known == alone.known.tolist()
    document = json.loads(run(tmp_path, *base, "--json").stdout)
    assert (document["n_invalid"], document["n_rejected"]) == (2, alone.n_rejected)
    assert document["decisions"][3]["known"] is None
    assert document["decisions"][3]["invalid"] is True
    run(tmp_path, *base, "--out", str(tmp_path / "d.npz"))
    with np.load(tmp_path / "d.npz") as found:
        assert np.flatnonzero(found["invalid"]).tolist() == [3, 20]
        assert np.array_equal(found["decision"][others], alone.labels)
    text = run(tmp_path, *base).stdout
    assert "2 invalid" in text
    assert "unknown (invalid)" in text
