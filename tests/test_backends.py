"""Work in processes, on Ray and one by one: the same outcomes, whoever dies."""

import os
import signal
from pathlib import Path

import pytest

from openset import _backends


def answer(text, mark=None):
    """Return a text; or fail; or die, for ever or only before there is a mark."""
    if text == "error":
        error = ValueError("no")
        error.add_note("in a.npz")
        raise error
    if text == "die" or (mark and not Path(mark).exists()):
        if mark:
            Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return text.upper()


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="Ray is an optional cluster")
    # Workers import this module.
    root = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    yield ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    ray.shutdown()


@pytest.mark.parametrize("backend", ["sequential", "loky", "ray"])
def test_values_and_errors_are_outcomes_of_their_calls(backend, request):
    if backend == "ray":
        request.getfixturevalue("ray")
    calls = [("a",), ("error",), ("b",)]
    found = sorted(_backends.run(answer, calls, backend=backend, jobs=2))
    assert [one.number for one in found] == [0, 1, 2]
    assert [one.value for one in found] == ["A", None, "B"]
    assert [one.error for one in found] == ["", "ValueError: no\nin a.npz", ""]
    assert "in answer" in found[1].traceback
    assert list(_backends.run(answer, [], backend=backend)) == []


@pytest.mark.parametrize("backend", ["loky", "ray"])
def test_a_process_that_dies_costs_its_own_call_only(
    backend, request, tmp_path, monkeypatch
):
    if backend == "ray":
        request.getfixturevalue("ray")
        monkeypatch.setattr(_backends, "_RETRIES", 1)  # each takes seconds
    calls = [("a",), ("once", str(tmp_path / "mark")), ("b",), ("die",), ("c",)]
    found = sorted(_backends.run(answer, calls, backend=backend, jobs=2))
    assert [one.value for one in found] == ["A", "ONCE", "B", None, "C"]
    assert found[3].error
    assert [one.error for one in found if one.number != 3] == [""] * 4


@pytest.mark.parametrize(
    ("options", "words"),
    [({"backend": "dask?"}, "backend must be one of"), ({"jobs": 0}, "jobs must be")],
)
def test_options_are_checked_before_anything_starts(options, words):
    with pytest.raises(ValueError, match=words):
        _backends.run(answer, [], **options)
