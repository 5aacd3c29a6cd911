"""What other systems do otherwise, emulated: open files, permissions, homes, cores."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from openset import Outputs, _backends, _io, datasets

OLD = Outputs(logits=np.eye(3), labels=[0, 1, 2])
NEW = Outputs(logits=2 * np.eye(3), labels=[0, 1, 2])

posix = pytest.mark.skipif(os.name == "nt", reason="permissions of other systems")


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
