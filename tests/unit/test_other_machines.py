"""What other systems do otherwise, emulated: open files, permissions, homes, cores."""

import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openset import Outputs, _backends, _io, _locks, datasets
from tests import open_files

OLD = Outputs(logits=np.eye(3), labels=[0, 1, 2])
NEW = Outputs(logits=2 * np.eye(3), labels=[0, 1, 2])

posix = pytest.mark.skipif(os.name == "nt", reason="permissions of other systems")


@pytest.fixture
def open_files_stay(monkeypatch):
    """Let no file that is open be renamed, replaced or deleted."""
    open_files.keep(monkeypatch)


def test_outputs_are_saved_over_outputs_that_are_open(tmp_path, open_files_stay):
    folder = OLD.save(tmp_path / "outputs")
    opened = Outputs.load(folder)
    NEW.save(folder)
    assert opened.logits[0, 0] == 1
    assert Outputs.load(folder).logits[0, 0] == 2
    del opened
    NEW.save(folder)  # removes what was open the last time
    left = {path.name.partition("-")[0] for path in folder.iterdir()}
    assert left == {".lock", "labels", "logits", "meta.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]


def test_a_file_that_is_open_stays_and_the_error_names_it(tmp_path, open_files_stay):
    _io.put(tmp_path / "a.txt", "old")
    with (
        (tmp_path / "a.txt").open("rb") as stream,
        pytest.raises(PermissionError, match=r"a\.txt: could not be written"),
    ):
        _io.put(tmp_path / "a.txt", "new")
    assert stream.closed
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.txt", b"old")]


def test_a_folder_in_use_stays_whole(tmp_path, open_files_stay):
    folder = tmp_path / "cell"
    for text in ("old", "new"):
        with _io.replacing_folder(folder) as temporary:
            (temporary / "a.txt").write_text(text, encoding="utf-8")
    assert (folder / "a.txt").read_text("utf-8") == "new"
    with (folder / "a.txt").open("rb"):
        with (
            pytest.raises(PermissionError, match="cell: could not be written"),
            _io.replacing_folder(folder),
        ):
            pass
        with pytest.raises(PermissionError):
            _io.discard(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["cell", "a.txt"]


def test_temporary_folders_go_although_their_lock_is_held(
    tmp_path, monkeypatch, open_files_stay
):
    monkeypatch.setattr(_locks.tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "openset-test-killed"
    left.mkdir()
    for name in (".lock", "large"):
        (left / name).touch()
    with _locks.temporary_folder("openset-test-") as used:
        assert list(tmp_path.iterdir()) == [used]


def test_a_rename_that_is_refused_for_a_moment_is_tried_again(tmp_path, monkeypatch):
    """By a virus scanner, say, that reads every new file."""
    monkeypatch.setattr(_io, "_PAUSES", (0.0, 0.0))
    replace, refused = os.replace, []

    def late(path, target):
        if len(refused) < 2:
            refused.append(path)
            raise PermissionError(errno.EACCES, "Access is denied")
        replace(path, target)

    monkeypatch.setattr(os, "replace", late)
    _io.put(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_bytes() == b"new"
    assert len(refused) == 2


@posix
@pytest.mark.parametrize("umask", [0o077, 0o022, 0o002])
def test_new_files_and_folders_have_the_usual_permissions(tmp_path, umask):
    """Those that the user's umask gives, and the group of the folder above."""
    tmp_path.chmod(0o2777)  # what is made here belongs to its group
    before = os.umask(umask)
    try:
        _io.put(tmp_path / "file", "text")
        with _io.replacing_folder(tmp_path / "folder"):
            pass
        (tmp_path / "usual").mkdir()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask
    usual = (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "folder").stat().st_mode == usual


def test_files_are_written_where_permissions_cannot_be_changed(tmp_path, monkeypatch):
    """As on some network disks."""

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    _io.put(tmp_path / "a.txt", "text")
    OLD.save(tmp_path / "outputs")
    NEW.save(tmp_path / "outputs")
    assert (tmp_path / "a.txt").read_bytes() == b"text"
    assert Outputs.load(tmp_path / "outputs").logits[0, 0] == 2


def test_an_old_folder_that_cannot_be_deleted_is_no_error(tmp_path, monkeypatch):
    """A network folder keeps the files that another process reads."""
    rmdir = os.rmdir

    def busy(path, **options):
        if ".old." in str(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", busy)
    for text in ("old", "new"):
        with _io.replacing_folder(tmp_path / "cell") as temporary:
            (temporary / "a.txt").write_text(text, encoding="utf-8")
    assert (tmp_path / "cell" / "a.txt").read_text("utf-8") == "new"


@pytest.fixture
def no_home(tmp_path, monkeypatch):
    """Make this process one of a user whom the system does not know."""

    def home():
        msg = "Could not determine home directory."
        raise RuntimeError(msg)

    for name in ("OPENSET_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)
    monkeypatch.chdir(tmp_path)


def test_a_user_without_a_home_has_data_in_the_current_folder(tmp_path, no_home):
    assert datasets.default_root() == tmp_path / "openset-data"
    assert "digits" in datasets.available()
    assert len(datasets.load("vowel", offline=True))  # it comes with the package
    assert list(tmp_path.iterdir()) == []


def test_the_home_of_another_user_holds_no_data(tmp_path, monkeypatch):
    """It may not be looked into: a container with HOME=/root, and another user."""
    real = os.stat

    def closed(path, **options):
        if str(path).startswith(f"{tmp_path / 'root'}/"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, **options)

    (tmp_path / "root").mkdir()
    monkeypatch.setattr(os, "stat", closed)
    monkeypatch.setenv("OPENSET_DATA", str(tmp_path / "root" / "data"))
    assert "digits" in datasets.available()
    assert "mnist" not in datasets.available()
    assert len(datasets.load("vowel", offline=True))


def test_a_data_folder_that_cannot_be_written_names_the_way_out(tmp_path):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        patch.delenv("OPENSET_OFFLINE", raising=False)
        with pytest.raises(PermissionError) as error:
            datasets.load("mnist", tmp_path / "data", offline=False)
    assert "$OPENSET_DATA" in error.value.__notes__[0]


def test_all_cores_are_those_that_this_process_may_use(monkeypatch):
    """A container may have one core of a machine of many."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert _backends.cores() == 1
    assert _backends.pool("loky", -1, None).jobs == 1


SCORES = "labels,predicted,known\na,a,0.9\nb,b,0.8\nunknown,a,0.3\nunknown,b,0.85\n"


def test_tables_are_readable_in_a_code_page_without_arrows(tmp_path):
    """As in a file or a pipe on Windows, in a terminal of forty columns."""
    (tmp_path / "scores.csv").write_text(SCORES, encoding="utf-8")
    done = subprocess.run(  # our own program
        [sys.executable, "-O", "-m", "openset", "evaluate", "scores.csv"],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONUTF8": "0",
            "PYTHONIOENCODING": "cp1252",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "COLUMNS": "40",
        },
        capture_output=True,
        encoding="cp1252",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if "^ OpenAUC " in line]
    assert re.search(r"[|]0[.]\d{4} *[|]0[.]\d{4}–", line), "its value and interval"
    assert "\\u" not in done.stdout
    assert "\x1b" not in done.stdout
