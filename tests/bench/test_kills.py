"""Processes and nodes that die: finished cells stay, the results are the same."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from openset import bench, runs
from openset.bench import parse
from tests.bench.studies import contents, fatal, small
from tests.killing import die_before_change, is_killed
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
ONE = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4,
             validation: 0.2, max_train: 60, max_test: 60}]
models: [{kind: mlp, hidden: 4, epochs: 1}]
detectors: [msp, {name: knn, k: 3}]
calibrate: {surrogate: mixup}
"""
N_CELLS = 2
# A file is complete when it is renamed, and its temporary name is removed just after.
STEPS = {"os.rename", "os.remove"}


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Run the study without a fatal detector; return its cells by name."""
    out = tmp_path_factory.mktemp("calm")
    bench.run(small(), out, backend="sequential")
    return without_fatal(out)


def without_fatal(out):
    """Return the numbers of the cells of all other detectors."""
    return {
        (cell.key["detector"], cell.key["repeat"]): [dict(row) for row in cell.rows]
        for cell in runs.read_cells(out)
        if "fatal" not in cell.key["detector"]
    }


def run_one(out):
    return bench.run(parse(ONE), out, backend="sequential")


def run_and_die(out, count):
    """Run, and die before a change of a file; in a process of its own."""
    die_before_change(count, out, STEPS)
    run_one(out)


def test_a_run_killed_at_any_step_is_finished_by_the_next(tmp_path):
    run_one(tmp_path / "calm")
    expected = contents(tmp_path / "calm")
    seen, count = set(), 1
    while is_killed(run_and_die, out := tmp_path / str(count), count):
        before = {p: p.stat().st_mtime_ns for p in out.glob("cells/[!.]*.json")}
        seen.add(len(before))
        assert run_one(out).n_run == N_CELLS - len(before)
        assert contents(out) == expected
        assert runs.failures(out) == []
        left = {path.name for path in out.rglob(".*")} - {".lock", ".locks"}
        assert left == set()  # nothing half-written stays behind
        assert {p: p.stat().st_mtime_ns for p in before} == before  # not done again
        count += 1
    assert seen == set(range(N_CELLS + 1))  # before the first, between any two, after


def test_a_killed_worker_loses_nothing_and_a_fatal_cell_is_given_up(tmp_path, calm):
    study = fatal(("process", tmp_path / "mark"), ("process", ""))
    done = bench.run(study, tmp_path / "run", backend="loky", jobs=2)
    assert (tmp_path / "mark").exists()
    assert done.n_run == 8
    assert {one["key"]["detector"] for one in done.failed} == {"fatal 1"}
    assert "its process died, twice" in done.failed[0]["error"]
    assert without_fatal(tmp_path / "run") == calm


DRIVER = """
import sys
from openset import bench
from tests.bench.studies import fatal
if __name__ == "__main__":
    mark, out = sys.argv[1:]
    bench.run(fatal(("held", mark)), out, backend="loky", jobs=2)
"""


def test_workers_end_with_the_process_that_started_them(tmp_path, calm):
    """Else they would go on, beside those of the next run."""
    mark = tmp_path / "mark"
    words = [sys.executable, "-c", DRIVER, str(mark), str(tmp_path / "run")]
    options = {"env": os.environ | {"PYTHONPATH": PATHS}, "cwd": tmp_path}
    driver = subprocess.Popen(words, **options)  # noqa: S603  # our own words
    wait_until(lambda: mark.exists() and mark.read_text())
    worker = int(mark.read_text())
    # While it runs, nobody else may write to its folder.
    with pytest.raises(BlockingIOError, match="is in use by another run"):
        bench.run(small(), tmp_path / "run", backend="sequential")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    wait_until(lambda: not is_alive(worker))
    study = fatal(("held", mark))
    assert bench.run(study, tmp_path / "run", backend="sequential").failed == ()
    assert without_fatal(tmp_path / "run") == calm


def is_alive(pid):
    """Whether a process runs; one that has ended may wait for its parent."""
    with suppress(FileNotFoundError):
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return status.rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture(scope="module")
def nodes():
    """Two Ray nodes with a CPU each, beside a first one without."""
    ray = pytest.importorskip("ray", reason="Ray is an optional cluster")
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    # A node that is gone is noticed after seconds, not half a minute.
    pace = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": pace}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    ray.init(
        cluster.address,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": PATHS}},
    )
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_lost_node_loses_nothing(nodes, tmp_path, calm):
    study = fatal(("node", tmp_path / "mark"))
    done = bench.run(study, tmp_path / "run", backend="ray")
    assert (tmp_path / "mark").exists()  # one of the nodes was killed
    assert (done.n_run, done.failed) == (8, ())
    assert without_fatal(tmp_path / "run") == calm
    assert bench.run(study, tmp_path / "run", backend="ray").n_run == 0
