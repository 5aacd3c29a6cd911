"""Files appear whole or not at all, and one process at a time holds a lock."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from openset import _io, _locks

FULL = Path("/dev/full")  # takes nothing, as a full disk does


def fill(_):
    with FULL.open("wb", buffering=0) as full:
        full.write(b"more than fits")


def too_short(_):
    msg = "200000 requested and 25584 written"  # what NumPy says of a full disk
    raise OSError(msg)


@pytest.mark.parametrize(
    ("writer", "said"), [(fill, "No space left"), (too_short, "25584 written")]
)
def test_a_full_disk_names_the_file_and_leaves_none(tmp_path, writer, said):
    if writer is fill and not FULL.exists():
        pytest.skip("this system has no /dev/full")
    path = tmp_path / "scores.npz"
    with pytest.raises(OSError, match=said) as caught:
        _io.write(path, writer)
    assert str(path) in str(caught.value)
    with (
        pytest.raises(OSError, match=said) as caught,
        _io.replacing_folder(tmp_path / "outputs"),
    ):
        writer(None)
    assert str(tmp_path / "outputs") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_empty_folders(tmp_path):
    """Folders made for a file go with it; those that were there stay."""
    (tmp_path / "old").mkdir()
    for folder in (tmp_path / "new" / "inner", tmp_path / "old"):
        with pytest.raises(OSError, match="25584 written"):
            _io.write(folder / "scores.npz", too_short)
        with (
            pytest.raises(OSError, match="25584 written"),
            _io.replacing_folder(folder / "outputs"),
        ):
            too_short(None)
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]


def test_new_folders_with_something_in_them_stay(tmp_path):
    def beside(_):
        (tmp_path / "new" / "log.txt").touch()
        too_short(None)

    with pytest.raises(OSError, match="25584 written"):
        _io.write(tmp_path / "new" / "scores.npz", beside)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["log.txt"]


def test_a_folder_that_another_process_removes_again_is_made_again(
    tmp_path, monkeypatch
):
    """It had made the folder, and its own write failed."""
    removed = []
    temporary = _io._temporary

    def after_removal(make, path):
        removed.append(path.parent)
        path.parent.rmdir()
        return temporary(make, path)

    monkeypatch.setattr(_io, "_temporary", after_removal)
    _io.put(tmp_path / "new" / "a.txt", "a")
    with _io.replacing_folder(tmp_path / "other" / "b") as folder:
        (folder / "b.txt").touch()
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.txt")}
    assert found == {"new/a.txt", "other/b/b.txt"}
    assert removed == [tmp_path / "new", tmp_path / "other"]


def test_other_errors_are_left_as_they_are(tmp_path):
    def of_another_file(_):
        np.load(tmp_path / "absent.npy")

    with pytest.raises(FileNotFoundError) as caught:
        _io.write(tmp_path / "scores.npz", of_another_file)
    assert caught.value.filename.endswith("absent.npy")


HOLDER = """
import sys
from pathlib import Path
from openset import _locks
with _locks.locked(Path(sys.argv[1])) as is_held:
    print(is_held, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Start a process that holds the lock until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603  # our own program
        command, stdin=pipe, stdout=pipe, text=True
    )
    assert process.stdout.readline().strip() == "True"
    yield process
    process.kill()
    process.communicate()


def test_a_lock_dies_with_the_process_that_holds_it(tmp_path, holder):
    path = tmp_path / "lock"
    with (
        pytest.raises(BlockingIOError, match=r"^somebody is at it$"),
        _locks.locked(path, busy="somebody is at it"),
    ):
        pass
    holder.kill()  # SIGKILL: it can clean up nothing
    holder.wait()
    assert path.exists()
    with _locks.locked(path, busy="somebody is at it") as is_held:
        assert is_held


def test_two_threads_never_hold_a_lock_at_once(tmp_path):
    inside, most = [], []
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        for _ in range(10):
            with _locks.locked(tmp_path / "lock") as is_held:
                assert is_held
                inside.append(1)
                threading.Event().wait(0.0005)  # gives the others a chance to break in
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 40


def test_an_error_inside_releases_the_lock(tmp_path):
    with pytest.raises(KeyError), _locks.locked(tmp_path / "lock"):
        raise KeyError
    with _locks.locked(tmp_path / "lock", busy="still held") as is_held:
        assert is_held


def test_a_file_system_without_locks_is_told_to_the_caller(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl", reason="file locks of this system differ")

    def answers(number):
        def flock(descriptor, operation):
            raise OSError(number, "refused")

        monkeypatch.setattr(fcntl, "flock", flock)

    for number in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
        answers(number)
        with _locks.locked(tmp_path / "lock", busy="held") as is_held:
            assert not is_held
    answers(errno.EIO)  # a broken disk is no such file system
    with pytest.raises(OSError, match="refused"), _locks.locked(tmp_path / "lock"):
        pass


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(OSError, match="file"),
        _locks.locked(tmp_path / "file" / "lock"),
    ):
        pass


KILLED = """
import os, signal, sys
from openset import _locks
with _locks.temporary_folder("openset-test-") as folder:
    (folder / "large").touch()
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_temporary_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_locks.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "openset-test-new").mkdir()  # another process is about to lock it
    killed = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-c", KILLED],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    left = Path(killed.stdout.strip())
    assert (left / "large").exists()
    with _locks.temporary_folder("openset-test-") as used:
        assert not left.exists()
        with _locks.temporary_folder("openset-test-") as other:
            assert used.is_dir(), "it is in use"
            assert other.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["openset-test-new"]
