"""Files of data sets: found, downloaded and checked, unpacked."""

import io
import tarfile
import zipfile
from hashlib import md5

import pytest

from openset import ArtefactError
from openset.datasets.places import File, Place, default_root
from tests.stores import web_server


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Serve a folder with a file on this machine."""
    # A proxy of the person who runs the tests must not be asked for 127.0.0.1.
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "web").mkdir()
    content = tmp_path / "web" / "data.bin"
    content.write_bytes(b"content")
    digest = md5(b"content", usedforsecurity=False).hexdigest()
    with web_server(content.parent) as address:
        yield content, File("data.bin", f"md5:{digest}", f"{address}/data.bin")


def test_a_missing_file_is_downloaded_once(web, tmp_path):
    content, file = web
    place = Place(tmp_path, "set", offline=False)
    (path,) = place.get(file)
    assert (path, path.read_bytes()) == (tmp_path / "set" / "data.bin", b"content")
    content.unlink()
    assert place.get(file) == [path]  # asks nobody
    path.unlink()
    with pytest.raises(ConnectionError, match=r"could not download data.bin \(404"):
        place.get(file)


def test_a_file_with_another_checksum_is_not_kept(web, tmp_path):
    content, file = web
    content.write_bytes(b"damaged")
    with pytest.raises(ConnectionError, match=r"could not download data.bin .*hash"):
        Place(tmp_path, "set", offline=False).get(file)
    assert not list((tmp_path / "set").iterdir())


def test_a_file_that_may_not_be_downloaded_is_named(web, tmp_path):
    _, file = web
    with pytest.raises(FileNotFoundError, match="downloads are switched off") as error:
        Place(tmp_path, "set").get(file)
    assert f"{tmp_path / 'set' / 'data.bin'}  ({file.digest})" in str(error.value)
    with pytest.raises(FileNotFoundError, match="offers no direct download"):
        Place(tmp_path, "set", offline=False).get(file._replace(url=""))


def test_the_root_is_the_environments_or_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENSET_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "openset"
    monkeypatch.setenv("OPENSET_DATA", str(tmp_path / "data"))
    assert default_root() == tmp_path / "data"


def tar(path, *names, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(name) * (kind == tarfile.REGTYPE)
            info.linkname = "/etc"
            archive.addfile(info, io.BytesIO(name.encode()))


def packed(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)


def tree(root, *names):
    return Place(root, "set").tree("top", *(File(name, "") for name in names))


def test_archives_are_unpacked_together(tmp_path):
    tar(tmp_path / "a.tgz", "top/one.txt", "top/sub/x", "list.txt")
    packed(tmp_path / "b.zip", "top/two.txt", "top/sub/y")
    found = tree(tmp_path, "a.tgz", "b.zip")
    assert found == tmp_path / "set" / "top"
    files = {p.relative_to(found).as_posix() for p in found.rglob("*") if p.is_file()}
    assert files == {"one.txt", "two.txt", "sub/x", "sub/y"}
    assert {p.name for p in found.parent.iterdir()} == {"top", "list.txt"}
    (tmp_path / "a.tgz").unlink()
    assert tree(tmp_path, "a.tgz") == found  # once is enough


def test_damaged_and_hostile_archives_leave_nothing_behind(tmp_path):
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "damaged.tgz").write_bytes(b"broken")
    tar(tmp_path / "out.tgz", "../evil")
    tar(tmp_path / "link.tgz", "top/link", kind=tarfile.SYMTYPE)
    tar(tmp_path / "device.tgz", "top/device", kind=tarfile.CHRTYPE)
    tar(tmp_path / "other.tgz", "other/one.txt")
    packed(tmp_path / "out.zip", "../evil", "/evil", "a/../../evil")
    archives = sorted(p.name for p in tmp_path.iterdir())
    for name in archives:
        words = f"{name} is damaged|{name} must hold top, got no such folder"
        with pytest.raises(ArtefactError, match=words):
            tree(tmp_path, name)
    assert not list(tmp_path.rglob("evil"))
    assert {p.name for p in (tmp_path / "set").iterdir()} <= {"other"}
