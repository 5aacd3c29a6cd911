"""Several processes that want the same data set at once."""

import errno
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

import openset
from openset.datasets._dataset_folder import DatasetFolder, merge, unpack
from openset.datasets._download import File, download
from tests.waiting import PATIENCE, wait_until

BODY = os.urandom(1 << 16)
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
SOURCES = str(Path(openset.__file__).parents[1])

PROGRAM = """
import sys
from pathlib import Path
from openset.datasets._download import File, download
url, digest, target = sys.argv[1:]
print(download(File("data.bin", digest, (url,)), Path(target)).stat().st_size)
"""


@pytest.fixture
def file(web):
    web.files["data.bin"] = BODY
    return File("data.bin", DIGEST, (web.url + "data.bin",))


def start(file, target):
    """Start a process of its own that downloads the file."""
    command = [sys.executable, "-c", PROGRAM, file.urls[0], file.digest, str(target)]
    environment = os.environ | {"PYTHONPATH": SOURCES}
    pipe = subprocess.PIPE
    return subprocess.Popen(  # noqa: S603  # our own program
        command, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def left_in(folder):
    """Return the names of the files that are not lock files."""
    return {p.name for p in folder.iterdir() if p.suffix != ".lock"}


def run_threads(n, work):
    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    return threads


@pytest.fixture
def no_locks(monkeypatch):
    """Let the file system answer as one without locks does."""
    fcntl = pytest.importorskip("fcntl", reason="file locks of this system differ")

    def refuse(descriptor, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_of_two_processes_one_downloads_and_both_have_the_file(web, file, tmp_path):
    web.gate.clear()
    target = tmp_path / "set" / "data.bin"
    running = [start(file, target) for _ in range(2)]
    wait_until(lambda: web.requests)  # one of them is at it
    web.gate.set()
    for process in running:
        out, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out.strip(), errors) == (0, str(len(BODY)), "")
    assert target.read_bytes() == BODY
    assert web.requests == [None]
    assert left_in(target.parent) == {"data.bin"}


def test_what_a_killed_process_left_is_continued_by_the_next(web, file, tmp_path):
    web.gate.clear()
    target = tmp_path / "data.bin"
    part = tmp_path / "data.bin.part"
    killed = start(file, target)
    wait_until(lambda: part.exists() and part.stat().st_size > 0)
    waiting = start(file, target)
    killed.kill()
    killed.communicate()
    web.gate.set()
    out, errors = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, out.strip(), errors) == (0, str(len(BODY)), "")
    assert target.read_bytes() == BODY
    assert not part.exists()
    first, second = web.requests
    assert first is None
    assert second.startswith("bytes=")


def test_threads_wait_for_each_other_too(web, file, tmp_path):
    web.gate.clear()
    target = tmp_path / "data.bin"
    found = []
    threads = run_threads(4, lambda: found.append(download(file, target)))
    wait_until(lambda: web.requests)
    web.gate.set()
    for thread in threads:
        thread.join()
    assert found == [target] * 4
    assert target.read_bytes() == BODY
    assert len(web.requests) == 1


@pytest.mark.usefixtures("no_locks")
def test_without_locks_each_writes_a_part_of_its_own(web, file, tmp_path):
    web.gate.clear()
    target = tmp_path / "data.bin"
    (tmp_path / "data.bin.part").write_bytes(b"of somebody else")
    found = []
    threads = run_threads(2, lambda: found.append(download(file, target)))
    wait_until(lambda: len(web.requests) == 2)  # neither waits for the other
    web.gate.set()
    for thread in threads:
        thread.join()
    assert found == [target] * 2
    assert target.read_bytes() == BODY
    assert (tmp_path / "data.bin.part").read_bytes() == b"of somebody else"
    assert left_in(tmp_path) == {"data.bin", "data.bin.part"}


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_failure_leaves_no_part_behind(web, file, tmp_path):
    web.cut_after = [10, 10, 10]
    with pytest.raises(ConnectionError):
        download(file, tmp_path / "data.bin")
    assert list(tmp_path.glob("*.part")) == []


# --- unpacking ------------------------------------------------------------------------


def archive(path, names):
    with tarfile.open(path, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    return path


def test_several_unpack_the_same_archive_at_once(tmp_path):
    names = [f"tree/{i // 20}/{i}.txt" for i in range(200)]
    path = archive(tmp_path / "tree.tar", names)
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    file = File("tree.tar", digest)
    troubles, seen = [], []

    def work():
        try:
            tree = DatasetFolder("set", tmp_path).tree("tree", file)
            seen.append(len(list(tree.rglob("*.txt"))))
        except OSError as error:
            troubles.append(error)

    for thread in run_threads(4, work):
        thread.join()
    assert troubles == []
    assert seen == [200] * 4  # whoever sees the tree sees all of it
    assert left_in(tmp_path / "set") == {"tree"}


def test_the_marker_of_loose_files_appears_last(tmp_path, monkeypatch):
    path = archive(tmp_path / "lists.tar", ["a.txt", "marker.txt", "z.txt"])
    order = []

    def note(source, target):
        order.append(target.name)
        merge(source, target)

    monkeypatch.setattr("openset.datasets._dataset_folder.merge", note)
    unpack(path, tmp_path / "out", last="marker.txt")
    assert order[-1] == "marker.txt"
    assert sorted(order) == ["a.txt", "marker.txt", "z.txt"]


def test_a_folder_that_came_meanwhile_is_filled_up(tmp_path):
    for folder, name in (("new", "a"), ("new", "b"), ("old", "b")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(folder)
    merge(tmp_path / "new", tmp_path / "old")
    assert {p.name: p.read_text() for p in (tmp_path / "old").iterdir()} == {
        "a": "new",
        "b": "new",
    }
