"""A study, and decisions over shards, on three Ray nodes of which some are killed.

    python benchmarks/cluster.py

Three nodes on this machine, one CPU each. A study (54 cells on 9 networks) runs calmly
in one process, then on the cluster with a worker, a node, and the driver killed by
SIGKILL in mid-run, then as three shards of a job array. `openset predict` runs over 24
shards of outputs, calmly and with a node killed. All results are compared byte by byte,
the provenance of cells left out. Writes the table of docs/cluster.md.
"""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import machine, put_section

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.unit.bench.cluster import Cluster, nodes  # noqa: E402

from openset import Outputs, Rejector, bench, detectors, runs  # noqa: E402

STUDY = """
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, repeats: 3,
             validation: 0.2}]
models: [{kind: mlp, hidden: 32, epochs: 30}]
detectors: [msp, energy, maxlogit, {name: knn, k: 5}, mahalanobis, openmax]
seeds: 3
calibrate: {surrogate: mixup}
"""
N_SHARDS = 24
N_ROWS = 20_000


def digest_of_cells(out: Path) -> str:
    """Hash all cells without their provenance."""
    text = "".join(cell.to_json(provenance=False) for cell in runs.read_cells(out))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def digest_of_files(out: Path) -> str:
    """Hash names and contents of all result files."""
    digest = hashlib.sha256()
    for path in sorted(out.glob("*.npz")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def start(cluster: Cluster, *arguments: object) -> subprocess.Popen[bytes]:
    """Start an openset command that runs on the cluster."""
    command = [sys.executable, "-m", "openset", *map(str, arguments)]
    return subprocess.Popen(  # noqa: S603  # our own words
        command, env=cluster.environment, stdout=subprocess.DEVNULL
    )


def when(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for a condition while a process runs."""
    while not condition():
        assert process.poll() is None, "it ended before it could be disturbed"
        time.sleep(0.02)


def kill_worker(out: Path, process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is working on a cell."""
    while process.poll() is None:
        for mark in out.glob("running/*/*"):
            try:
                os.kill(int(mark.read_text().split()[-1]), signal.SIGKILL)
            except (OSError, ValueError, IndexError):
                continue  # it finished under our hands
            return


def kill_node(cluster: Cluster) -> None:
    """Kill the last node with all its processes, and let another one join later."""
    node = cluster.nodes.pop()
    os.killpg(node.pid, signal.SIGKILL)
    node.wait()


def main() -> None:
    """Run, disturb, compare, write the table."""
    lines = []

    def note(what: str, happened: str, seconds: float, digest: str) -> None:
        lines.append(f"| {what} | {happened} | {seconds:.0f} s | `{digest}` |")
        print(lines[-1], flush=True)

    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as name:  # short: sockets
        folder = Path(name)
        study = folder / "study.yaml"
        study.write_text(STUDY)
        n_cells = len(bench.plan(bench.read(study)))
        clock = time.perf_counter()
        bench.run(study, folder / "calm", backend="sequential")
        expected = digest_of_cells(folder / "calm")
        took = time.perf_counter() - clock
        note("study, one process", "nothing", took, expected)
        (folder / "ray").mkdir()
        with nodes(folder / "ray", cpus=(1, 1, 1)) as cluster:
            wait_for_nodes(cluster, 3)

            def run(
                what: str, out: Path, disturb: Callable[..., None], cells: int
            ) -> None:
                options = ("--out", out, "--backend", "ray", "--address")
                command = ("bench", study, *options, cluster.address)
                clock = time.perf_counter()
                process = start(cluster, *command)
                when(lambda: len(runs.finished(out)) >= cells, process)
                disturb(process)
                if process.wait() == -signal.SIGKILL:  # the driver
                    left = n_cells - len(runs.finished(out))
                    what += f" with {left} cells left; the same command again"
                    process = start(cluster, *command)
                assert process.wait() == 0
                took = time.perf_counter() - clock
                found = digest_of_cells(out)
                assert found == expected
                note("study on Ray", what, took, found)

            run("nothing", folder / "undisturbed", lambda _: None, 0)
            out = folder / "worker"
            run("a worker killed", out, lambda p: kill_worker(out, p), 9)
            run("a node killed", folder / "node", lambda _: kill_node(cluster), 9)
            cluster.add_node(cpus=1)
            wait_for_nodes(cluster, 3)
            run("the driver killed", folder / "driver", lambda p: p.kill(), 9)
            predict(folder, cluster, note)
        shards(study, folder / "shards", expected, note)
    put_section("cluster", page(lines), ROOT / "docs" / "cluster.md")


def predict(folder: Path, cluster: Cluster, note: Callable[..., None]) -> None:
    """Classify shards of outputs, calmly and while a node is killed."""
    rng = np.random.default_rng(0)

    def drawn(n: int) -> Outputs:
        labels = rng.integers(-1, 10, n)
        centres = np.where(labels[:, None] >= 0, np.eye(10)[labels] * 4, 0)
        logits = (centres + rng.normal(size=(n, 10))).astype(np.float32)
        return Outputs(logits=logits, features=logits, labels=labels)

    train, calibration = drawn(4000), drawn(4000)
    fitted = detectors.KNN(k=5).fit(train.take(train.labels >= 0))
    rejector = Rejector.calibrate(
        fitted,
        known=calibration.take(calibration.labels >= 0),
        surrogate=calibration.take(calibration.labels < 0),
    ).save(folder / "rejector")
    for i in range(N_SHARDS):
        drawn(N_ROWS).save(folder / "outputs" / f"{i:02}")
    digests = []
    for happened, disturb in (("nothing", False), ("a node killed", True)):
        out = folder / f"decisions-{disturb}"
        options = ("--out", out, "--format", "npz", "--backend", "ray")
        clock = time.perf_counter()
        process = start(
            cluster,
            *("predict", rejector, folder / "outputs", *options),
            *("--address", cluster.address),
        )
        if disturb:
            when(lambda out=out: len(list(out.glob("*.npz"))) >= 6, process)
            kill_node(cluster)
        assert process.wait() == 0
        took = time.perf_counter() - clock
        assert len(list(out.glob("*.npz"))) == N_SHARDS
        digests.append(digest_of_files(out))
        note(f"predict, {N_SHARDS} shards on Ray", happened, took, digests[-1])
    assert len(set(digests)) == 1


def shards(study: Path, out: Path, expected: str, note: Callable[..., None]) -> None:
    """Run three shards at the same time, kill one, run it again, and merge."""
    command = [sys.executable, "-m", "openset", "bench", study, "--out", out]
    more = ["--backend", "sequential"]
    clock = time.perf_counter()
    tasks = [
        subprocess.Popen(  # noqa: S603  # our own words
            [*command, *more, "--shard", f"{i}/3"], stdout=subprocess.DEVNULL
        )
        for i in (1, 2, 3)
    ]
    when(lambda: len(runs.finished(out)) >= 3, tasks[1])
    tasks[1].kill()
    assert [task.wait() for task in tasks] == [0, -signal.SIGKILL, 0]
    for shard in (["--shard", "2/3"], []):
        subprocess.run(  # noqa: S603  # our own words
            [*command, *more, *shard], check=True, stdout=subprocess.DEVNULL
        )
    took = time.perf_counter() - clock
    found = digest_of_cells(out)
    assert found == expected
    note("study in 3 shards", "one killed and run again; merged", took, found)


def wait_for_nodes(cluster: Cluster, n: int) -> None:
    """Wait until `n` nodes have joined."""
    script = (
        "import ray, sys, time\n"
        "ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')\n"
        "while ray.cluster_resources().get('CPU', 0) < int(sys.argv[2]):\n"
        "    time.sleep(0.2)\n"
    )
    subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-c", script, cluster.address, str(n)],
        env=cluster.environment,
        check=True,
    )


def page(lines: list[str]) -> str:
    """Return the section of docs/cluster.md."""
    table = "\n".join(lines)
    return f"""`python benchmarks/cluster.py`: three Ray nodes of one CPU each on one
machine ({machine()}). 54 cells on 9 networks; {N_SHARDS} shards of {N_ROWS:,} samples.
The digest is of all cells without their provenance, or of all files of decisions. The
times include the start of Ray's workers, on a machine with other work: they show that a
run finishes, not how fast it is.

| run | what happened | time | digest |
|---|---|---|---|
{table}
"""


if __name__ == "__main__":
    main()
