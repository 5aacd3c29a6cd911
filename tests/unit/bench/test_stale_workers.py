"""Workers that outlive a killed run, damaged networks, and data that were exchanged."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openset import _backends, bench, runs
from openset.bench import _folder, _network, _worker, parse
from openset.bench._plan import plan
from openset.outputs import Outputs
from tests.unit.bench.studies import SMALL, contents, small
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    out = tmp_path_factory.mktemp("calm")
    bench.run(small(), out, backend="sequential")
    return contents(out)


def forget_cells(out):
    for path in out.glob("cells/*.json"):
        path.unlink()


@pytest.mark.parametrize("damage", ["missing", "byte", "cut", "unlisted"])
def test_a_damaged_network_is_made_again(calm, tmp_path, damage):
    bench.run(small(), tmp_path, backend="sequential")
    network, whole = sorted((tmp_path / "networks").iterdir())
    before = (whole / "files.json").stat().st_mtime_ns
    file = network / "test" / "logits.npy"
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "unlisted":
        (network / "files.json").unlink()
    elif damage == "cut":
        file.write_bytes(content[:-8])
    else:
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    forget_cells(tmp_path)
    done = bench.run(small(), tmp_path, backend="sequential")
    assert done.failed == ()
    assert contents(tmp_path) == calm
    assert file.read_bytes() == content
    assert (whole / "files.json").stat().st_mtime_ns == before  # only that one


def test_a_file_that_goes_missing_later_fails_the_cell(tmp_path):
    study = small()
    bench.run(study, tmp_path, backend="sequential")
    task = plan(study).tasks[0]
    (tmp_path / "networks" / task.source.id / "test" / "features.npy").unlink()
    _folder.begin(tmp_path, "all.x")
    place = _worker.Locations(tmp_path, tmp_path, tmp_path, owner="all.x")
    _worker.cell(task, "", place)
    (failure,) = runs.failures(tmp_path)
    assert "got no features.npy. Run the same command again" in failure["error"]


def test_a_network_discarded_while_it_is_written_does_not_appear(tmp_path, monkeypatch):
    """The next run tidies up while a worker of the killed one is still writing."""
    study = small()
    source = plan(study).tasks[0].source
    save = Outputs.save
    parts = []

    def save_and_tidy(self, path):
        saved = save(self, path)  # makes missing parents
        parts.append(path.name)
        if len(parts) == 2:
            _folder.tidy(tmp_path, "all.next")
        return saved

    monkeypatch.setattr(Outputs, "save", save_and_tidy)
    place = _worker.Locations(tmp_path, tmp_path, tmp_path, owner="all.old")
    _folder.begin(tmp_path, "all.old")
    (protocol, _) = bench._run.protocols_of(plan(study), place)[source.key["protocol"]]
    with pytest.raises(FileNotFoundError, match="writing"):
        _network.make(
            source,
            protocol,
            tmp_path,
            base=tmp_path,
            root=tmp_path,
            unfinished=tmp_path / "training" / "old",
        )
    assert len(parts) > 2
    assert not list((tmp_path / "networks").iterdir())


def test_a_worker_of_a_killed_run_records_no_failure(tmp_path):
    task = plan(small()).tasks[0]
    (tmp_path / "running").mkdir()
    place = _worker.Locations(tmp_path, tmp_path, tmp_path, owner="all.old")
    _worker.cell(task, "", place)  # there is no network
    assert runs.failures(tmp_path) == []
    _folder.begin(tmp_path, "all.old")
    _worker.cell(task, "", place)
    assert len(runs.failures(tmp_path)) == 1


MAIN = """
import sys
from openset import bench
bench.run(sys.argv[1], sys.argv[2], jobs=2)
"""


def is_running(pid):
    try:
        state = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8")
            .rpartition(")")[2]
            .split()[0]
        )
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_workers_end_when_their_main_process_is_killed(tmp_path):
    study = tmp_path / "study.yaml"
    held = f'{{name: "tests.unit.bench.fatal:Held", mark: "{tmp_path / "pid"}"}}'
    study.write_bytes(SMALL.replace(b"[msp,", b"[" + held.encode() + b","))
    main = subprocess.Popen(  # noqa: S603  # our own words
        [sys.executable, "-c", MAIN, study, tmp_path / "run"],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    wait_until(lambda: (tmp_path / "pid").exists() or main.poll() is not None)
    worker = int((tmp_path / "pid").read_text())
    assert worker != main.pid
    assert is_running(worker)
    main.send_signal(signal.SIGKILL)
    main.wait()
    wait_until(lambda: not is_running(worker))


# Data that were exchanged.


def saved(folder, seed):
    rng = np.random.default_rng(seed)
    labels = np.tile([0, 1, -1], 20)
    logits = np.eye(2)[np.abs(labels)] * 3 + rng.normal(size=(60, 2))
    made = Outputs(logits=logits, labels=labels)
    made.take(labels >= 0).save(folder / "train.npz")
    made.save(folder / "test.npz")


def on_saved(folder, detectors):
    study = {"outputs": [{"name": "x", "path": "saved"}], "detectors": detectors}
    return bench.Study.model_validate(study).at(folder)


def test_other_data_under_the_same_path_are_refused(tmp_path):
    saved(tmp_path / "saved", 0)
    bench.run(on_saved(tmp_path, ["msp"]), tmp_path / "run", backend="sequential")
    more = on_saved(tmp_path, ["msp", "energy"])
    saved(tmp_path / "saved", 1)
    with pytest.raises(ValueError, match=r"saved must not change after .* 1 cells"):
        bench.run(more, tmp_path / "run", backend="sequential")
    saved(tmp_path / "saved", 0)  # the same content at another time
    assert bench.run(more, tmp_path / "run", backend="sequential").n_run == 1


def test_data_may_be_mended_before_anything_comes_of_them(tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "train.npz").write_bytes(b"broken")
    study = on_saved(tmp_path, ["msp"])
    assert bench.run(study, tmp_path / "run", backend="sequential").failed
    saved(tmp_path / "saved", 0)
    assert bench.run(study, tmp_path / "run", backend="sequential").n_run == 1


# Shards.


@pytest.mark.parametrize("n", [2, 3])
def test_shards_are_merged_by_a_run_without_one(calm, tmp_path, n):
    numbers = []
    for i in range(1, n + 1):
        done = bench.run(small(), tmp_path, backend="sequential", shard=(i, n))
        numbers.append(done.n_run)
        assert done.n_cells == done.n_run
    assert sum(numbers) == 6
    assert not (tmp_path / "results.csv").exists()
    networks = {p: p.stat().st_mtime_ns for p in tmp_path.glob("networks/*/*")}
    assert bench.run(small(), tmp_path, backend="sequential").n_run == 0
    assert contents(tmp_path) == calm
    assert (tmp_path / "results.csv").exists()
    after = {p: p.stat().st_mtime_ns for p in tmp_path.glob("networks/*/*")}
    assert after == networks


def test_each_cell_and_network_is_in_one_shard(tmp_path):
    text = SMALL.replace(b"repeats: 2", b"repeats: 5")
    made = plan(parse(text, "study.yaml"))
    shards = [bench._run._tasks_of(made, (i, 3)) for i in (1, 2, 3)]
    assert sorted(t.id for shard in shards for t in shard) == sorted(made.ids)
    owners = [{task.source.id for task in shard} for shard in shards]
    assert [len(one) for one in owners] == [2, 2, 1]
    assert len(set.union(*owners)) == 5


def test_runs_that_would_share_cells_are_refused(tmp_path):
    run = {"study": small(), "out": tmp_path, "backend": "sequential"}
    with _folder.owned(tmp_path, (1, 2)):
        with pytest.raises(BlockingIOError, match="got shard 1/2 that writes to it"):
            bench.run(**run, shard=(1, 2))
        with pytest.raises(BlockingIOError, match="got shard 1/2 that writes to it"):
            bench.run(**run, shard=(2, 3))
        with pytest.raises(BlockingIOError, match="got shard 1/2 that writes to it"):
            bench.run(**run)
        with _folder.owned(tmp_path, (2, 2)):  # another part of the same division
            pass
    with pytest.raises(ValueError, match="shard must be i/n with 1 <= i <= n, got 3/2"):
        bench.run(**run, shard=(3, 2))


def test_a_shard_leaves_the_files_of_others_alone(tmp_path):
    made = plan(small())
    mine, other = bench._run._tasks_of(made, (1, 2)), bench._run._tasks_of(made, (2, 2))
    cells = tmp_path / "cells"
    cells.mkdir()
    (cells / f".{mine[0].id}.json.abc").touch()
    (cells / f".{other[0].id}.json.abc").touch()
    _folder.begin(tmp_path, "2-of-2.abc")
    _folder.begin(tmp_path, "1-of-2.abc")
    bench.run(small(), tmp_path, backend="sequential", shard=(1, 2))
    assert [p.name for p in cells.glob(".*")] == [f".{other[0].id}.json.abc"]
    assert [p.name for p in (tmp_path / "running").iterdir()] == ["2-of-2.abc"]
    assert json.loads((tmp_path / "protocols.json").read_text())


def note_the_switch(main, path):
    """Follow the main process, as tasks do, and note whether loky watches memory."""
    from joblib.externals.loky import process_executor  # noqa: PLC0415

    before = process_executor._USE_PSUTIL
    _backends.follow(main)
    path.write_text(f"{before} {process_executor._USE_PSUTIL}")


def test_a_worker_that_grows_is_not_replaced(tmp_path):
    pytest.importorskip("psutil", reason="without it loky does not watch memory")
    code = (
        "import sys; from pathlib import Path; from openset import _backends\n"
        "from tests.unit.bench.test_stale_workers import note_the_switch\n"
        "main = _backends.main_process('loky')\n"
        "calls = [(main, Path(sys.argv[1]))]\n"
        "_backends.pool('loky', 2, None)(note_the_switch, calls)\n"
    )
    note = tmp_path / "note.txt"
    # A pool of its own: workers of earlier tests have turned it off already.
    command = [sys.executable, "-c", code, str(note)]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  # our own code
    assert note.read_text() == "True False"
