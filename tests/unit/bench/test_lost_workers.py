"""Worker processes that die: at a chosen point, in the cell that kills them."""

from openset import bench
from openset.bench import parse
from tests.unit.bench.studies import SMALL, contents, fatal

ONE = SMALL.replace(b"repeats: 2", b"repeats: 1")


def test_a_killed_worker_loses_nothing(tmp_path):
    mark = tmp_path / "mark"
    study = parse(fatal(ONE, mark=mark), "study.yaml")
    mark.touch()  # nobody dies
    bench.run(study, tmp_path / "calm", backend="sequential")
    mark.unlink()
    done = bench.run(study, tmp_path / "run", backend="loky", jobs=2)
    assert mark.exists()
    assert (done.n_run, done.failed) == (4, ())
    assert contents(tmp_path / "run") == contents(tmp_path / "calm")


def test_a_cell_that_kills_its_process_is_given_up(tmp_path):
    study = parse(fatal(ONE), "study.yaml")
    done = bench.run(study, tmp_path, backend="loky", jobs=2)
    (record,) = done.failed
    assert record["key"]["detector"] == "fatal"
    assert "its worker process died twice (TerminatedWorkerError" in record["error"]
    assert len(contents(tmp_path)) == done.n_run == 3  # the others are not lost
    assert not (tmp_path / "running").exists()
