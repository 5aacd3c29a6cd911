"""Several processes that want the same data set at once."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

import openset
from openset.datasets import _lock
from openset.datasets._fetch import File, download
from openset.datasets._locations import Place, merge, unpack
from openset.datasets._lock import locked

BODY = os.urandom(1 << 16)
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
SOURCES = str(Path(openset.__file__).parents[1])

PROGRAM = """
import sys
from pathlib import Path
from openset.datasets._fetch import File, download
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


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


def test_of_two_processes_one_downloads_and_both_have_the_file(web, file, tmp_path):
    web.pause = 0.05  # 16 chunks: the second process comes while the first is at it
    target = tmp_path / "set" / "data.bin"
    running = [start(file, target) for _ in range(2)]
    for process in running:
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out.strip(), errors) == (0, str(len(BODY)), "")
    assert target.read_bytes() == BODY
    assert web.requests == [None]
    assert [p.name for p in target.parent.iterdir()] == ["data.bin"]


def test_what_a_killed_process_left_is_continued_by_the_next(web, file, tmp_path):
    web.pause = 0.05
    target = tmp_path / "data.bin"
    part = tmp_path / "data.bin.part"
    killed = start(file, target)
    wait_for(lambda: part.exists() and part.stat().st_size > 0)
    waiting = start(file, target)
    killed.kill()
    killed.communicate()
    out, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, out.strip(), errors) == (0, str(len(BODY)), "")
    assert target.read_bytes() == BODY
    assert not part.exists()
    first, second = web.requests
    assert first is None
    assert second.startswith("bytes=")


def test_threads_wait_for_each_other_too(web, file, tmp_path):
    web.pause = 0.01
    target = tmp_path / "data.bin"
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(download(file, target)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [target] * 4
    assert target.read_bytes() == BODY
    assert len(web.requests) == 1


def test_without_locks_each_writes_a_part_of_its_own(web, file, tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(_lock, "_lock", refuse)
    web.pause = 0.01
    target = tmp_path / "data.bin"
    (tmp_path / "data.bin.part").write_bytes(b"of somebody else")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(download(file, target)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [target] * 2
    assert target.read_bytes() == BODY
    assert (tmp_path / "data.bin.part").read_bytes() == b"of somebody else"
    left = {p.name for p in tmp_path.iterdir()} - {".data.bin.lock"}
    assert left == {"data.bin", "data.bin.part"}


def test_without_locks_a_failure_leaves_no_part_behind(
    web, file, tmp_path, monkeypatch
):
    def refuse(descriptor):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(_lock, "_lock", refuse)
    web.cut_after = [10, 10, 10]
    with pytest.raises(ConnectionError):
        download(file, tmp_path / "data.bin")
    assert list(tmp_path.glob("*.part")) == []


# --- the lock itself ------------------------------------------------------------------


def test_two_never_hold_the_lock_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(_lock, "PAUSE", 0.001)
    inside, most = [], []

    def work():
        for _ in range(20):
            with locked(tmp_path / "lock") as is_held:
                assert is_held
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert set(most) == {1}
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_left_behind_is_nobodys(tmp_path):
    (tmp_path / "lock").touch()
    with locked(tmp_path / "lock") as is_held:
        assert is_held


def test_an_error_inside_gives_the_lock_back(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "lock"):
        raise KeyError
    with locked(tmp_path / "lock") as is_held:
        assert is_held


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
            tree = Place("set", tmp_path).tree("tree", file)
            seen.append(len(list(tree.rglob("*.txt"))))
        except OSError as error:
            troubles.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert seen == [200] * 4  # whoever sees the tree sees all of it
    assert {p.name for p in (tmp_path / "set").iterdir()} == {"tree"}


def test_the_marker_of_loose_files_appears_last(tmp_path, monkeypatch):
    path = archive(tmp_path / "lists.tar", ["a.txt", "marker.txt", "z.txt"])
    order = []

    def note(source, target):
        order.append(target.name)
        merge(source, target)

    monkeypatch.setattr("openset.datasets._locations.merge", note)
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
