"""Running a study: results, resume, failures, names, lost workers."""

import json
from importlib import import_module

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from openset import Outputs, Scores, bench, checks, evaluate, protocols, runs
from openset.bench import parse, plan
from openset.bench._models import fit
from openset.bench._progress import Watcher
from openset.bench._study import LogisticModel
from openset.datasets import Dataset, cut
from tests.unit.bench.studies import SMALL, contents, small


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """One sequential run of the small study."""
    out = tmp_path_factory.mktemp("run")
    done = bench.run(small(), out, backend="sequential")
    assert (done.n_cells, done.n_run, done.failed) == (6, 6, ())
    return out


def test_a_cell_is_what_the_library_gives_by_hand(undisturbed):
    for cell in runs.read_cells(undisturbed):
        scores = Scores.load(undisturbed / "scores" / f"{cell.id}.npz")
        found = evaluate(scores, threshold=float(cell.threshold["value"]))
        rows = {row["metric"]: row for row in cell.rows}
        for metric in ("openauc", "auroc", "osa", "f_score"):
            assert rows[metric]["value"] == found[metric]
        assert rows["openauc"]["low"] == found.intervals["openauc"].low
        assert rows["oosa"]["value"] == cell.operation["oosa"]
        assert len(cell.classes) == 6


def test_a_cell_carries_its_birth(undisturbed):
    drawn = {p.hash for p in protocols.load(undisturbed / "protocols.json")}
    for cell in runs.read_cells(undisturbed):
        assert cell.provenance["protocol_hash"] in drawn
        assert {"version", "commit", "seed", "machine", "seconds"} <= set(
            cell.provenance
        )


def test_results_are_the_same_with_workers_and_without(undisturbed, tmp_path):
    bench.run(small(), tmp_path, backend="loky", jobs=2)
    assert contents(tmp_path) == contents(undisturbed)
    for part in ("scores", "calibration"):
        for path in (undisturbed / part).iterdir():
            assert (tmp_path / part / path.name).read_bytes() == path.read_bytes()


def test_a_finished_study_repeats_nothing(undisturbed):
    files = [
        p for p in undisturbed.rglob("*") if "cells" in p.parts or "networks" in p.parts
    ]
    before = {path: path.stat().st_mtime_ns for path in files if path.is_file()}
    assert bench.run(small(), undisturbed, backend="sequential").n_run == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_only_what_is_missing_is_run_and_networks_are_shared(undisturbed, tmp_path):
    bench.run(small(), tmp_path, backend="sequential")
    networks = sorted((tmp_path / "networks").iterdir())
    assert len(networks) == 2
    lost = sorted((tmp_path / "cells").iterdir())[:2]
    born = [
        json.loads((n / "network.json").read_text())["provenance"] for n in networks
    ]
    for path in lost:
        path.unlink()
    assert bench.run(small(), tmp_path, backend="sequential").n_run == 2
    again = [
        json.loads((n / "network.json").read_text())["provenance"] for n in networks
    ]
    assert again == born
    assert contents(tmp_path) == contents(undisturbed)


def test_a_study_may_grow_but_not_change_in_its_folder(tmp_path):
    bench.run(small(), tmp_path, backend="sequential")
    grown = parse(SMALL.replace(b"[msp,", b"[msp, gen,"), "study.yaml")
    done = bench.run(grown, tmp_path, backend="sequential")
    assert (done.n_cells, done.n_run) == (8, 2)
    with pytest.raises(ValueError, match="2 cells that are not in this study"):
        bench.run(small(), tmp_path, backend="sequential")


def test_an_interrupted_network_is_not_kept_as_if_it_were_trained(
    tmp_path, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(MLPClassifier, "_backprop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.run(small(), tmp_path, backend="sequential")
    assert not (tmp_path / "networks").exists()
    assert not runs.finished(tmp_path)


def test_a_failing_cell_is_reported_and_stops_nobody(tmp_path):
    # A forest has no last linear layer, which ViM needs.
    text = SMALL.replace(
        b"models: [{kind: mlp, hidden: 8, epochs: 5}]",
        b"models: [{kind: sklearn, estimator: sklearn.tree.DecisionTreeClassifier}]",
    ).replace(b"[msp,", b"[vim, msp,")
    study = parse(text, "study.yaml")
    done = bench.run(study, tmp_path, backend="sequential")
    assert (done.n_cells, done.n_run, len(done.failed)) == (8, 6, 2)
    for record in runs.failures(tmp_path):
        assert "ViM.fit: outputs must have head" in record["error"]
        assert "Traceback" in record["traceback"]
        assert record["key"]["detector"] == "vim"
    assert bench.run(study, tmp_path, backend="sequential").n_run == 0


def test_a_failing_network_fails_its_cells_only(tmp_path):
    text = SMALL.replace(
        b"models: [",
        b"models: [{kind: sklearn, estimator: sklearn.neighbors.KNeighborsClassifier,"
        b" params: {n_neighbors: 0}}, ",
    )
    done = bench.run(parse(text, "study.yaml"), tmp_path, backend="sequential")
    assert (done.n_run, len(done.failed)) == (6, 6)
    assert all("its network failed" in record["error"] for record in done.failed)


def test_a_backend_that_never_gets_anywhere_is_an_error(tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        msg = "nobody home"
        raise ConnectionError(msg)

    pool = type("Pool", (), {"__call__": broken, "alone": broken})
    monkeypatch.setattr(bench._run._backends, "pool", lambda *a, **k: pool())
    with pytest.raises(ConnectionError, match="nobody home"):
        bench.run(small(), tmp_path)


TRICKS = ("<script>alert(1)</script>", "../../outside", "a/b\\c:*\0?", "é\n'\"|&")


@pytest.mark.parametrize("name", TRICKS)
def test_names_never_become_file_names(tmp_path, name):
    labels = np.tile([0, 1, -1], 20)
    rng = np.random.default_rng(0)
    logits = np.eye(2)[np.abs(labels)] * 3 + rng.normal(size=(60, 2))
    made = Outputs(
        logits=logits,
        labels=labels,
        groups=np.where(labels < 0, name, ""),
        classes=[name, "other"],
    )
    made.take(labels >= 0).save(tmp_path / "saved" / "train.npz")
    made.save(tmp_path / "saved" / "test.npz")
    study = bench.Study.model_validate(
        {
            "name": name,
            "outputs": [{"name": name, "model": name, "path": "saved"}],
            "detectors": [{"name": "msp", "label": name}],
        }
    ).at(tmp_path)
    out = tmp_path / "deep" / "run"
    done = bench.run(study, out, backend="sequential")
    assert (done.n_run, done.failed) == (1, ())
    (cell,) = runs.read_cells(out)
    assert (cell.key["protocol"], cell.classes[0]) == (name, name)
    written = [path for path in tmp_path.rglob("*") if "saved" not in path.parts]
    letters = set("0123456789abcdefghijklmnopqrstuvwxyz._")
    assert all(set(path.name) <= letters for path in written)
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "deep"}
    assert runs.results(out).column("protocol")[0] == name


def test_saved_outputs_that_are_not_there_fail_by_name(tmp_path):
    study = bench.Study.model_validate(
        {"outputs": [{"name": "x", "path": "gone"}], "detectors": ["msp"]}
    ).at(tmp_path)
    done = bench.run(study, tmp_path / "run", backend="sequential")
    assert "gone must be a folder with train.npz" in done.failed[0]["error"]


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    with (
        bench._run._folder.owned(tmp_path, None),
        pytest.raises(BlockingIOError, match="got another run that writes to it"),
    ):
        bench.run(small(), tmp_path, backend="sequential")


def test_a_protocol_that_cannot_be_drawn_is_named(tmp_path):
    study = parse(SMALL.replace(b"unknown: 4", b"unknown: 9"), "study.yaml")
    with pytest.raises(ValueError, match=r"protocols\[0\]: .*must be at most 10"):
        bench.run(study, tmp_path, backend="sequential")


def test_bad_backends_and_addresses_are_refused(tmp_path):
    with pytest.raises(ValueError, match="backend must be one of 'loky'"):
        bench.run(small(), tmp_path, backend="slurm")
    with pytest.raises(ValueError, match="address must be left out"):
        bench.run(small(), tmp_path, address="10.0.0.1:1")
    with pytest.raises(ValueError, match="jobs must be an integer >= 1, got 0"):
        bench.run(small(), tmp_path, jobs=0)


def test_the_checks_read_the_folder(undisturbed):
    findings = {f.code: f.status for f in checks.run_folder(undisturbed)}
    assert findings["OSR006"] == "passed"  # thresholds and calibration scores are there
    assert findings["OSR011"] == "not applicable"  # nothing is said about it


def test_progress_is_read_from_the_folder(undisturbed):
    made = plan(small())
    watcher = Watcher(undisturbed, made, made.tasks)
    assert watcher.leaders() == {}
    watcher.look()
    (leader,) = watcher.leaders().values()
    table = runs.results(undisturbed).where(metric="openauc")
    means = [
        table.where(detector=d).column("value").mean()
        for d in set(table.column("detector"))
    ]
    assert leader[1] == pytest.approx(max(means))
    assert leader[2] == 2
    assert watcher.bars.finished


def test_an_estimate_comes_from_cells_that_have_run(undisturbed, tmp_path):
    made = plan(small())
    assert bench.estimate(made, undisturbed).seconds == 0
    guess = bench.estimate(made)
    assert guess.seconds > 0
    assert "a rough guess" in guess.source
    grown = plan(parse(SMALL.replace(b"[msp,", b"[msp, gen,"), "study.yaml"))
    found = bench.estimate(grown, undisturbed)
    cells = [cell.provenance["seconds"] for cell in runs.read_cells(undisturbed)]
    assert found.seconds == pytest.approx(2 * np.mean(cells), abs=1e-9)
    assert "from 6 finished cells" in found.source


def test_pixels_are_not_standardised_one_by_one(rng):
    # One pixel is nearly constant in training: over its spread, any ink is far away.
    images = rng.integers(0, 256, size=(60, 4, 4)).astype(np.uint8)
    images[:, 0, 0] = 0
    images[0, 0, 0] = 1
    data = Dataset(
        inputs=images,
        labels=np.tile([0, 1, 2], 20),
        classes=["a", "b", "c"],
        kind="image",
    ).with_parts(test=0.3)
    made = cut(data, protocols.Protocol(known=["a", "b"], unknown=["c"]))
    outputs = fit(LogisticModel(kind="logistic"), made, seed=0)
    assert np.asarray(outputs["test"].features).min() >= 0
    assert np.asarray(outputs["test"].features).max() <= 1


def test_networks_are_trained_by_the_training_package(tmp_path):
    pytest.importorskip("torch", reason="the extra torch")
    text = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, validation: 0.1}]
models: [{kind: network, params: {recipe: arpl, epochs: 3, lr: 0.02, curves: true}}]
methods: [softmax, {name: openauc, weight: 0.2}]
detectors: [msp, postmax, published]
seeds: [3]
calibrate: {objective: conformal, surrogate: none, options: {error_rate: 0.1}}
"""
    done = bench.run(parse(text, "study.yaml"), tmp_path, backend="sequential")
    assert (done.n_run, done.failed) == (6, ())
    cells = runs.read_cells(tmp_path)
    assert {cell.key["method"] for cell in cells} == {"openauc(weight=0.2)", "softmax"}
    curve = cells[0].curve
    assert [line["epoch"] for line in curve] == [1, 2, 3]
    openauc = cells[0].results().where(metric="openauc").column("value")[0]
    # Whichever detector it is of, a curve ends where its network ends.
    assert cells[0].curve == cells[1].curve
    of_msp = next(c for c in cells if c.key["detector"] == "msp")
    found = of_msp.results().where(metric="openauc").column("value")[0]
    assert of_msp.curve[-1]["openauc_msp"] == pytest.approx(found, abs=1e-6)
    assert 0 < openauc < 1
    # Softmax was published with the largest probability.
    of_softmax = {c.key["detector"]: c for c in cells if c.key["method"] == "softmax"}
    published, msp = (of_softmax[name].results() for name in ("published", "msp"))
    for metric in ("openauc", "auroc", "oosa"):
        one, other = (t.where(metric=metric).column("value") for t in (published, msp))
        assert one == pytest.approx(other, abs=1e-3)


def test_training_that_was_stopped_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    text = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: network, params: {recipe: arpl, epochs: 2, lr: 0.02}}]
methods: [softmax]
detectors: [msp]
"""
    study = parse(text, "study.yaml")

    def stop(_run):
        msg = "stopped"
        raise RuntimeError(msg)

    with monkeypatch.context() as patch:
        patch.setattr(import_module("openset.train.fit"), "_finished", stop)
        assert len(bench.run(study, tmp_path, backend="sequential").failed) == 1
    assert len(list(tmp_path.glob("training/*/*/checkpoint.pt"))) == 1
    updates = []
    monkeypatch.setattr("openset.train.run.Run._update", lambda *a: updates.append(a))
    assert bench.run(study, tmp_path, backend="sequential").n_run == 1
    assert updates == []  # all had been made
    assert not (tmp_path / "training").exists()


def test_networks_that_ask_for_a_gpu_are_not_trained_without_one(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the extra torch")
    text = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, max_train: 100}]
models: [{kind: network, gpus: 1, params: {recipe: arpl, epochs: 1, lr: 0.02}}]
methods: [softmax]
detectors: [msp]
"""
    study = parse(text, "study.yaml")
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        for backend in ("sequential", "loky"):
            with pytest.raises(ValueError, match=r"no GPU, got 1\..* without gpus"):
                bench.run(study, tmp_path, backend=backend)
    assert not any((tmp_path / name).exists() for name in ("training", "networks"))
    with monkeypatch.context() as patch:  # as on another machine, with a GPU
        patch.setattr("openset.bench._run._LOCAL", ())
        assert bench.run(study, tmp_path, backend="sequential").n_run == 1
    # What is trained is scored anywhere.
    for cell in (tmp_path / "cells").iterdir():
        cell.unlink()
    assert bench.run(study, tmp_path, backend="sequential").n_run == 1


def test_only_training_methods_have_a_published_score():
    text = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: mlp}]
detectors: [published]
"""
    with pytest.raises(
        ValueError, match=r"detectors\[0\] must be a detector .* got 'published'"
    ):
        parse(text, "study.yaml")


def test_an_option_no_method_has_fails_its_cells_and_says_so(tmp_path):
    pytest.importorskip("torch", reason="the extra torch")
    text = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: network, params: {recipe: arpl, epochs: 1}}]
methods: [{name: openauc, lam: 0.1}]
detectors: [msp]
"""
    done = bench.run(parse(text, "study.yaml"), tmp_path, backend="sequential")
    assert done.n_run == 0
    assert "lam" in done.failed[0]["error"]


def image_folder(folder, *, sides=(6, 6)):
    """Write a folder per class, with images of these sides, and no parts."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for number, name in enumerate(["cat", "dog", "fox"]):
        (folder / name).mkdir(parents=True)
        for i in range(10):
            pixels = rng.integers(0, 60, (6, sides[i % 2], 3)) + 60 * number
            made = image.fromarray(pixels.astype(np.uint8))
            made.save(folder / name / f"{i}.png")
    text = f"""
protocols: [{{kind: holdout, data: {folder}, known: 2, unknown: 1}}]
models: [{{kind: logistic}}]
detectors: [msp]
"""
    return parse(text.encode(), "study.yaml")


def test_a_folder_of_images_of_one_size_is_divided_as_in_training(tmp_path):
    study = image_folder(tmp_path / "photos")
    done = bench.run(study, tmp_path / "run", backend="sequential")
    assert (done.n_cells, done.failed) == (1, ())
    (cell,) = runs.read_cells(tmp_path / "run")
    scores = Scores.load(tmp_path / "run" / "scores" / f"{cell.id}.npz")
    assert (scores.n_known, scores.n_unknown) == (6, 3)  # 30 % of each class


def test_images_of_several_sizes_are_named(tmp_path):
    study = image_folder(tmp_path / "photos", sides=(6, 8))
    done = bench.run(study, tmp_path / "run", backend="sequential")
    assert "got images of 6 x 6 and of 6 x 8" in str(done.failed)
