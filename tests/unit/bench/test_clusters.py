"""Studies on clusters: three Ray nodes, one of them killed; a Dask scheduler."""

import subprocess
import sys
import tempfile
from importlib.util import find_spec

import pytest

from openset import _backends, bench, runs
from openset.bench import parse
from tests.unit.bench.cluster import nodes
from tests.unit.bench.studies import SMALL, contents, fatal

DRIVER = """
import sys, time, ray
from openset import bench
address, study, out, cpus = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
end = time.monotonic() + 300
while ray.cluster_resources().get("CPU", 0) < int(cpus):
    assert time.monotonic() < end, "a node is missing"
    time.sleep(0.1)
done = bench.run(study, out, backend="ray")
print("ran", done.n_run, "failed", len(done.failed))
"""


@pytest.fixture(scope="module")
def on_ray():
    """Run study files on a cluster of three nodes, each from a process of its own.

    No cell runs on the first node, to which the driver is connected.
    """
    if find_spec("ray") is None:
        pytest.skip("Ray is an optional cluster")

    def run(study, out, *, cpus):
        done = subprocess.run(  # noqa: S603  # our own words
            [sys.executable, "-c", DRIVER, cluster.address, study, out, str(cpus)],
            env=cluster.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr[-3000:]

    # Ray's sockets want a short path.
    with (
        tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder,
        nodes(folder, cpus=(0, 1, 1)) as cluster,
    ):
        yield run


def test_a_killed_worker_and_a_killed_node_change_no_result(on_ray, tmp_path):
    study, marks = tmp_path / "study.yaml", [tmp_path / "worker", tmp_path / "node"]
    study.write_bytes(fatal(fatal(mark=marks[0]), mark=marks[1], node=True))
    for mark in marks:
        mark.touch()  # nobody dies
    bench.run(study, tmp_path / "calm", backend="sequential")
    for mark in marks:
        mark.unlink()
    said = on_ray(study, tmp_path / "run", cpus=2)
    assert "ran 10 failed 0" in said, said
    assert all(mark.exists() for mark in marks)
    assert contents(tmp_path / "run") == contents(tmp_path / "calm")


GUEST = """
from dataclasses import dataclass
from openset.detectors import Detector

@dataclass(frozen=True, kw_only=True)
class Scaled(Detector):
    factor: float = 2.0

    def _score(self, state, batch):
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
        found = runs.results(tmp_path / "run").where(metric=metric).paired()
        assert found["guest"].tolist() == found["maxlogit"].tolist()
        assert found["guest"].size == 2


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


def test_a_ray_cluster_without_gpus_says_so():
    class Ray:
        @staticmethod
        def cluster_resources():
            return {"CPU": 4.0, "GPU": 1.0}

    pool = _backends.pool("ray", -1, Ray, gpus=0.5)
    assert pool._places() == 2
    assert pool.resources["num_gpus"] == 0.5
    with pytest.raises(ValueError, match="must be one with 2 GPUs and a CPU, got 4 CP"):
        _backends.pool("ray", -1, Ray, gpus=2)


def test_a_dask_run_asks_for_the_address(tmp_path):
    pytest.importorskip("distributed", reason="Dask is optional")
    with pytest.raises(ValueError, match="address must be that of a running scheduler"):
        bench.run(parse(SMALL, "study.yaml"), tmp_path, backend="dask")
