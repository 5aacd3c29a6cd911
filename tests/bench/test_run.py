"""Running a study: results, resume, what changed, failures, names."""

import json
import os
import sys

import numpy as np
import pytest

from openset import Outputs, Scores, bench, checks, evaluate, protocols, runs
from tests.bench.studies import contents, small

SEQUENTIAL = {"backend": "sequential"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """One sequential run of the small study."""
    out = tmp_path_factory.mktemp("run")
    done = bench.run(small(), out, **SEQUENTIAL)
    assert (done.n_cells, done.n_run, done.failed) == (6, 6, ())
    return out


def test_a_cell_is_what_the_library_gives_by_hand(undisturbed):
    drawn = {p.hash for p in protocols.load(undisturbed / "protocols.json")}
    for cell in runs.read_cells(undisturbed):
        scores = Scores.load(undisturbed / "scores" / f"{cell.id}.npz")
        found = evaluate(scores)
        rows = {row["metric"]: row for row in cell.rows}
        # What the study names, and what comes of the threshold: nothing else.
        assert set(rows) == {"openauc", "auroc", "fpr_at_tpr", "accuracy", "oosa"}
        for metric in set(rows) - {"oosa"}:
            assert rows[metric]["value"] == found[metric]
        assert rows["openauc"]["low"] == found.intervals["openauc"].low
        assert rows["oosa"]["value"] == cell.operation["oosa"]
        assert len(cell.classes) == 6
        assert cell.provenance["protocol_hash"] in drawn
        assert {"version", "seed", "machine", "seconds"} <= set(cell.provenance)
    findings = {f.code: f.status for f in checks.run_folder(undisturbed)}
    assert findings["OSR006"] == "passed"  # thresholds and calibration scores are there
    assert findings["OSR011"] == "not applicable"  # nothing is said about it
    said = json.loads((undisturbed / "study.json").read_text())
    assert list(said["metrics"]) == ["openauc", "auroc", "fpr_at_tpr", "accuracy"]


def test_results_are_the_same_with_workers_and_in_shards(undisturbed, tmp_path):
    bench.run(small(), tmp_path / "workers", backend="loky", jobs=2)
    parts = tmp_path / "parts"
    done = [bench.run(small(), parts, **SEQUENTIAL, shard=(i, 2)) for i in (1, 2)]
    assert [one.n_run for one in done] == [3, 3]
    assert bench.run(small(), parts, **SEQUENTIAL).n_run == 0
    for out in (tmp_path / "workers", parts):
        assert contents(out) == contents(undisturbed)
        table = (undisturbed / "results.csv").read_bytes()
        assert (out / "results.csv").read_bytes() == table
        for part in ("scores", "calibration"):
            for path in (undisturbed / part).iterdir():
                assert (out / part / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(ValueError, match="shard must be i/n with 1 <= i <= n, got 3/2"):
        bench.run(small(), parts, **SEQUENTIAL, shard=(3, 2))


def test_only_what_is_missing_is_run_and_networks_are_shared(undisturbed, tmp_path):
    bench.run(small(), tmp_path, **SEQUENTIAL)
    assert len(list(tmp_path.glob("networks/*"))) == 2
    for path in sorted(tmp_path.glob("cells/*"))[:2]:
        path.unlink()
    files = [*tmp_path.glob("cells/*"), *tmp_path.glob("networks/*/**/*")]
    before = {path: path.stat().st_mtime_ns for path in files}
    assert bench.run(small(), tmp_path, **SEQUENTIAL).n_run == 2
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert contents(tmp_path) == contents(undisturbed)


def test_a_study_may_grow_but_not_change_in_its_folder(tmp_path):
    bench.run(small(), tmp_path, **SEQUENTIAL)
    grown = small((b"[msp,", b"[msp, gen,"))
    done = bench.run(grown, tmp_path, **SEQUENTIAL)
    assert (done.n_cells, done.n_run) == (8, 2)
    with pytest.raises(ValueError, match="got 2 cells of another"):
        bench.run(small(), tmp_path, **SEQUENTIAL)
    wider = small((b"[msp,", b"[msp, gen,"), (b"models", b"metrics: [aupr]\nmodels"))
    assert bench.run(wider, tmp_path, **SEQUENTIAL).n_run == 8
    assert bench.run(wider, tmp_path, **SEQUENTIAL).n_run == 0


PLUGIN = """
from openset.detectors import Detector


class Mine(Detector):
    name = "mine"

    def score_batch(self, state, batch):
        return {sign}batch.top_logit
"""


def data_file(path, seed):
    numbers = np.repeat([0, 1, 2], 20)
    noise = np.random.default_rng(seed).normal(size=(60, 3))
    np.savez(path, inputs=noise + numbers[:, None], labels=numbers)
    os.utime(path, ns=(seed, seed))


def test_cells_of_changed_code_or_data_are_done_again(tmp_path, monkeypatch):
    """Else a flipped sign would keep the old numbers."""
    monkeypatch.chdir(tmp_path)
    changes = [(b"[msp,", b"[msp, 'signed:Mine',"), (b"data: digits", b"data: a.npz")]
    changes.append((b"known: 6, unknown: 4", b"known: 2, unknown: 1"))
    said, aurocs = [], []
    for sign, seed in (("", 0), ("-", 0), ("-", 1)):
        (tmp_path / "signed.py").write_text(PLUGIN.format(sign=sign))
        data_file(tmp_path / "a.npz", seed)
        done = bench.run(small(*changes), tmp_path / "run", **SEQUENTIAL)
        table = runs.results(tmp_path / "run").where(metric="auroc")
        assert len(table) == done.n_cells == 8
        said.append((done.n_run, done.again.rpartition(" of ")[2]))
        aurocs.append(table.where(detector="signed:Mine").column("value"))
        monkeypatch.delitem(sys.modules, "signed")  # as another process has none
    assert said == [(8, ""), (2, "signed:Mine"), (8, "a.npz")]
    assert aurocs[1] == pytest.approx(1 - aurocs[0])
    assert (aurocs[1] != aurocs[2]).any()


TREE = b"{kind: sklearn, estimator: sklearn.tree.DecisionTreeClassifier}"
BAD = b"{kind: sklearn, estimator: sklearn.svm.SVC, params: {C: -1}}"


def test_what_fails_is_reported_and_stops_nobody(tmp_path):
    # A tree has no last linear layer, which ViM needs.
    models = (b"{kind: mlp, hidden: 8, epochs: 5}", TREE + b", " + BAD)
    study = small(models, (b"[msp,", b"[vim, msp,"))
    done = bench.run(study, tmp_path, **SEQUENTIAL)
    assert (done.n_cells, done.n_run, len(done.failed)) == (16, 6, 10)
    for record in runs.failures(tmp_path):
        network = record["key"]["model"] == "SVC"
        assert network or record["key"]["detector"] == "vim"
        words = "its network failed" if network else "ViM.fit: outputs must have head"
        assert words in record["error"]
        assert "Traceback" in record["traceback"]
    assert str(done).endswith("(6 run now, 10 failed)")
    assert bench.run(study, tmp_path, **SEQUENTIAL).n_run == 0


TRICKS = ["<script>alert(1)</script>", "../../outside", "a/b\\c:*\0?", "é\n'\"|&"]


def test_names_never_become_file_names(tmp_path):
    labels = np.tile([0, 1, -1], 20)
    logits = np.eye(3)[labels][:, :2] + np.linspace(0, 1, 120).reshape(60, 2)
    name, model, label, of_class = TRICKS
    made = Outputs(logits=logits, labels=labels, classes=[of_class, "other"])
    made.take(labels >= 0).save(tmp_path / "saved" / "train.npz")
    made.save(tmp_path / "saved" / "test.npz")
    parts = {"name": of_class, "detectors": [{"name": "msp", "label": label}]}
    parts |= {"outputs": [{"name": name, "model": model, "path": "saved"}]}
    study = bench.Study.model_validate(parts | {"base": tmp_path})
    assert bench.run(study, tmp_path / "deep" / "run", **SEQUENTIAL).failed == ()
    (cell,) = runs.read_cells(tmp_path / "deep" / "run")
    names = [cell.key[key] for key in ("protocol", "model", "detector")]
    assert [*names, cell.classes[0]] == TRICKS
    letters = set("0123456789abcdefghijklmnopqrstuvwxyz._-")
    assert all(set(path.name) <= letters for path in tmp_path.rglob("*"))
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "deep"}


def test_what_cannot_run_is_named_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match=r"holdout: .*must be at most 10"):
        bench.run(small((b"unknown: 4", b"unknown: 9")), tmp_path, **SEQUENTIAL)
    with pytest.raises(ValueError, match="Did you mean 'digits'"):
        bench.run(small((b"data: digits", b"data: digit")), tmp_path, **SEQUENTIAL)
    for options, words in (
        ({"backend": "slurm"}, "backend must be one of 'loky'"),
        ({"jobs": 0}, "jobs must be an integer >= 1, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            bench.run(small(), tmp_path, **options)
    assert not (tmp_path / "networks").exists()
