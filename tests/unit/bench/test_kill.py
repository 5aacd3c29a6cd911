"""Killed twenty times at random moments: the results are those of a calm run."""

import multiprocessing
import random

from openset import bench, runs
from openset.bench import parse
from tests.unit.bench.studies import contents

N_KILLS = 20

STUDY = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, repeats: 4,
             validation: 0.2, max_train: 150, max_test: 150}]
models: [{kind: mlp, hidden: 8, epochs: 10}]
detectors: [msp, maxlogit, energy, gen, {name: knn, k: 3}]
calibrate: {surrogate: mixup}
seeds: 2
"""


def run(out):
    bench.run(parse(STUDY, "study.yaml"), out, backend="sequential")


def test_twenty_kills_change_nothing(tmp_path):
    run(tmp_path / "calm")
    expected = contents(tmp_path / "calm")
    # A server that has imported everything forks a process in no time.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["openset.bench._run", "tests.unit.bench.test_kill"])
    moments = random.Random(0)  # noqa: S311  # moments, not secrets
    n_kills = n_folders = n_midway = 0
    out, before = tmp_path / "0", {}
    while n_kills < N_KILLS:
        process = context.Process(target=run, args=(out,))
        process.start()
        process.join(moments.uniform(0.0, 0.6))
        process.kill()
        process.join()
        n_kills += process.exitcode == -9
        cells = {p: p.stat().st_mtime_ns for p in out.glob("cells/*.json")}
        # What was finished before was not done again.
        assert {path: cells[path] for path in before} == before
        n_midway += 0 < len(cells) < len(expected)
        before = cells
        if process.exitcode == 0:
            assert contents(out) == expected
            n_folders += 1
            out, before = tmp_path / str(n_folders), {}
    run(out)
    assert contents(out) == expected
    assert runs.failures(out) == []
    assert n_midway > 0  # some kills fell between the first cell and the last
    left = [path.name for path in out.rglob(".*") if path.name != ".lock"]
    assert left == []  # nothing half-written stays behind
