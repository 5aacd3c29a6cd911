"""Files have the usual permissions, and one at a time holds a lock."""

import errno
import os
import stat

import numpy as np
import pytest

from openset import Outputs, _io


@pytest.mark.skipif(os.name == "nt", reason="permissions of other systems")
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
    for factor in (1, 2):
        Outputs(logits=factor * np.eye(3)).save(tmp_path / "outputs")
        assert Outputs.load(tmp_path / "outputs").logits[0, 0] == factor


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_goes_without(tmp_path, monkeypatch, number):
    fcntl = pytest.importorskip("fcntl", reason="file locks of this system differ")

    def flock(descriptor, operation):
        raise OSError(number, "refused")

    monkeypatch.setattr(fcntl, "flock", flock)
    for _ in range(2):
        with _io.locked(tmp_path / "lock", busy="held"):
            pass


def test_one_at_a_time_holds_a_lock(tmp_path):
    path = tmp_path / "new" / "lock"
    for _ in range(2):
        with (
            _io.locked(path),
            pytest.raises(BlockingIOError, match=r"^somebody is at it$"),
            _io.locked(path, busy="somebody is at it"),
        ):
            pass
