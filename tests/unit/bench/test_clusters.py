"""A study on clusters: two Ray nodes, one worker killed; a Dask scheduler."""

import tempfile
import time

import pytest

from openset import bench
from openset.bench import parse
from tests.unit.bench.cluster import two_nodes
from tests.unit.bench.studies import SMALL, contents
from tests.unit.bench.test_run import kill_a_worker


# Warnings of Ray's and Dask's own start-up are not ours to mend.
@pytest.mark.filterwarnings("ignore")
def test_two_ray_nodes_and_a_killed_worker_give_the_same_results(tmp_path):
    ray = pytest.importorskip("ray", reason="Ray is an optional cluster")
    study = parse(SMALL.replace(b"epochs: 5", b"epochs: 7"), "study.yaml")
    bench.run(study, tmp_path / "calm", backend="sequential")
    # Ray's sockets want a short path.
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        try:
            cluster = two_nodes(folder)
            address, _ = cluster.__enter__()
        except RuntimeError as error:
            pytest.skip(f"no Ray cluster can be started here: {error}")
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            end = time.monotonic() + 60
            while sum(n["Alive"] for n in ray.nodes()) < 2 and time.monotonic() < end:
                time.sleep(0.1)
            assert sum(node["Alive"] for node in ray.nodes()) == 2
            killed = kill_a_worker(tmp_path)
            done = bench.run(study, tmp_path / "run", backend="ray")
            assert killed.wait(10)
        finally:
            ray.shutdown()
            cluster.__exit__(None, None, None)
    assert (done.n_run, done.failed) == (6, ())
    assert contents(tmp_path / "run") == contents(tmp_path / "calm")


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

    pool = bench._run._backends.pool("ray", -1, Ray, gpus=0.5)
    assert pool.jobs == 2
    assert pool._options["ray_remote_args"]["num_gpus"] == 0.5
    with pytest.raises(ValueError, match="must be one with 2 GPUs and a CPU, got 4 CP"):
        bench._run._backends.pool("ray", -1, Ray, gpus=2)


def test_a_dask_run_asks_for_the_address(tmp_path):
    pytest.importorskip("distributed", reason="Dask is optional")
    with pytest.raises(ValueError, match="address must be that of a running scheduler"):
        bench.run(parse(SMALL, "study.yaml"), tmp_path, backend="dask")
