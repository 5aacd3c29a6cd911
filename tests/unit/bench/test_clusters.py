"""Studies on clusters: three Ray nodes, one of them killed; a Dask scheduler."""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec

import pytest

from openset import _backends, bench, runs
from openset.bench import parse
from tests.unit.bench.cluster import nodes
from tests.unit.bench.studies import SMALL, contents, fatal

WAITING = """
import sys, ray
from tests.waiting import wait_until
address, study, out, cpus = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
wait_until(lambda: ray.cluster_resources().get("CPU", 0) >= int(cpus))
"""
DRIVER = (
    WAITING
    + """
from openset import bench
done = bench.run(study, out, backend="ray")
print("ran", done.n_run, "failed", len(done.failed))
"""
)


@pytest.fixture(scope="module")
def on_ray():
    """Run study files on a cluster of three nodes, each from a process of its own.

    No cell runs on the first node, to which the driver is connected. The last one says
    it has two GPUs.
    """
    if find_spec("ray") is None:
        pytest.skip("Ray is an optional cluster")

    def run(study, out, *, cpus, script=DRIVER):
        done = subprocess.run(  # noqa: S603  # our own words
            [sys.executable, "-c", script, cluster.address, study, out, str(cpus)],
            env=cluster.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr[-3000:]

    # Ray's sockets want a short path.
    with (
        tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder,
        nodes(folder, cpus=(0, 1, 2), gpus=(0, 2)) as cluster,
    ):
        yield run


# Tasks that note what they were given, and wait for those that run beside them.
NOTING = (
    WAITING
    + """
import json, os
from pathlib import Path
from openset import _backends

def note(folder, gpus, at_once):
    asked = ray.get_runtime_context().get_assigned_resources()["GPU"]
    seen = os.environ["CUDA_VISIBLE_DEVICES"]
    text = json.dumps([os.getpid(), asked, seen])
    (folder / f"{gpus}-{os.getpid()}.json").write_text(text)
    wait_until(lambda: len(list(folder.glob(f"{gpus}-*.json"))) == at_once)

for gpus, at_once in ((0.5, 2), (1, 2), (2, 1)):
    calls = [(Path(out), gpus, at_once)] * at_once
    _backends.pool("ray", -1, ray, gpus=gpus)(note, calls)
"""
)


def test_tasks_get_the_gpus_they_ask_for(on_ray, tmp_path):
    said = on_ray("", tmp_path, cpus=3, script=NOTING)
    notes = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    assert [asked for _, asked, _ in notes] == [0.5, 0.5, 1, 1, 2], said
    seen = [devices for _, _, devices in notes]
    assert {*seen[:2]} <= {"0", "1"}
    assert sorted(seen[2:4]) == ["0", "1"]
    assert seen[4] == "0,1"
    # A process that had a GPU is not used again: CUDA would stay on that one.
    assert len({process for process, _, _ in notes}) == 5


def test_networks_ask_for_the_gpus_of_their_model_and_cells_for_none(
    tmp_path, monkeypatch
):
    asked = []

    def pool(*arguments, gpus, make=_backends.pool):
        asked.append(gpus)
        return make(*arguments)

    monkeypatch.setattr(_backends, "pool", pool)
    models = b"models: [{kind: logistic, gpus: 1}, {kind: mlp, epochs: 1, gpus: 0.5}]"
    text = SMALL.replace(b"models: [{kind: mlp, hidden: 8, epochs: 5}]", models)
    done = bench.run(parse(text, "study.yaml"), tmp_path, backend="sequential")
    assert done.failed == ()
    assert asked == [0.5, 1, 0]


def test_a_killed_worker_and_a_killed_node_change_no_result(on_ray, tmp_path):
    study, marks = tmp_path / "study.yaml", [tmp_path / "worker", tmp_path / "node"]
    study.write_bytes(fatal(fatal(mark=marks[0]), mark=marks[1], node=True))
    for mark in marks:
        mark.touch()  # nobody dies
    bench.run(study, tmp_path / "calm", backend="sequential")
    for mark in marks:
        mark.unlink()
    said = on_ray(study, tmp_path / "run", cpus=3)
    assert "ran 10 failed 0" in said, said
    assert all(mark.exists() for mark in marks)
    assert contents(tmp_path / "run") == contents(tmp_path / "calm")


GUEST = """
from dataclasses import dataclass
from openset.detectors import Detector

@dataclass(frozen=True, kw_only=True)
class Scaled(Detector):
    factor: float = 2.0

    def score_batch(self, state, batch):
        return self.factor * batch.logits.max(axis=1)
"""


def test_a_plugin_beside_the_study_file_runs_on_ray(on_ray, tmp_path):
    # Neither the driver nor the workers find the module on their path.
    (tmp_path / "scaled_logit.py").write_text(GUEST)
    guests = b'{name: "scaled_logit:Scaled", label: guest, factor: 4}, maxlogit'
    study = tmp_path / "study.yaml"
    study.write_bytes(SMALL.replace(b"msp, energy, {name: knn, k: 3}", guests))
    said = on_ray(study, tmp_path / "run", cpus=1)  # a node may be gone
    assert "ran 4 failed 0" in said, said
    # The largest logit, times four: the same ranks.
    for metric in ("auroc", "openauc", "oosa"):
        found = runs.results(tmp_path / "run").where(metric=metric)
        guest, own = (
            found.where(detector=name).column("value").tolist()
            for name in ("guest", "maxlogit")
        )
        assert guest == own
        assert len(own) == 2


# Warnings of Dask's own start-up are not ours to mend.
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_results(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is optional")
    study = parse(SMALL, "study.yaml")
    bench.run(study, tmp_path / "calm", backend="sequential")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options, host="127.0.0.1") as cluster:
        address = cluster.scheduler_address
        done = bench.run(study, tmp_path / "run", backend="dask", address=address)
    assert (done.n_run, done.failed) == (6, ())
    assert contents(tmp_path / "run") == contents(tmp_path / "calm")


class TwoNodes:
    """What Ray says of two nodes, and of one that is gone."""

    @staticmethod
    def nodes():
        """Return their resources."""
        return [
            {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0}},
            {"Alive": True, "Resources": {"CPU": 3.0, "GPU": 2.0}},
            {"Alive": False, "Resources": {"CPU": 9.0, "GPU": 9.0}},
        ]

    @staticmethod
    def cluster_resources():
        """Return those of all."""
        return {"CPU": 7.0, "GPU": 3.0}


@pytest.mark.parametrize(
    ("gpus", "places"), [(0, 7), (0.5, 2 + 3), (0.6, 1 + 2), (1, 1 + 2), (2, 1)]
)
def test_a_task_has_its_place_on_one_node(gpus, places):
    pool = _backends.pool("ray", -1, TwoNodes, gpus=gpus)
    assert pool._places() == places
    assert pool.resources.get("num_gpus", 0) == gpus
    # Processes with a GPU end with their call, which takes several items then.
    assert pool.items_per_call(100) == (100 // (4 * places) if gpus else 1)
    assert pool.items_per_call(3) == 1


def test_gpus_that_no_node_has_are_refused():
    with pytest.raises(ValueError, match="must be one with 3 GPUs and a CPU on one no"):
        _backends.pool("ray", -1, TwoNodes, gpus=3)
    with pytest.raises(ValueError, match="gpus must be a whole number, or a share of"):
        _backends.pool("ray", -1, TwoNodes, gpus=1.5)


def test_a_dask_run_asks_for_the_address(tmp_path):
    pytest.importorskip("distributed", reason="Dask is optional")
    with pytest.raises(ValueError, match="address must be that of a running scheduler"):
        bench.run(parse(SMALL, "study.yaml"), tmp_path, backend="dask")
