"""Downloads against a real web server: resumed, checked, explained."""

import hashlib
import os

import pytest

from openset import ArtefactError
from openset.datasets import _download
from openset.datasets._dataset_folder import DatasetFolder
from openset.datasets._download import File, download, is_offline

BODY = os.urandom(1 << 16)  # large enough for several reads
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


@pytest.fixture
def file(web):
    web.files["data.bin"] = BODY
    return File("data.bin", DIGEST, (web.url + "data.bin",))


def left_in(folder):
    """Return the names of the files that are not lock files."""
    return {p.name for p in folder.iterdir() if p.suffix != ".lock"}


def test_a_file_arrives_whole_and_leaves_nothing_beside_it(web, file, tmp_path):
    target = tmp_path / "set" / "data.bin"
    assert download(file, target) == target
    assert target.read_bytes() == BODY
    assert left_in(target.parent) == {"data.bin"}


def test_a_broken_transfer_continues_where_it_stopped(web, file, tmp_path):
    web.cut_after = [1000, 2000]
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY
    assert web.requests == [None, "bytes=1000-", "bytes=3000-"]


def test_a_later_call_continues_an_earlier_one(web, file, tmp_path):
    web.cut_after = [500, 500, 500]
    with pytest.raises(ConnectionError, match="1,500 bytes are kept"):
        download(file, tmp_path / "data.bin")
    assert not (tmp_path / "data.bin").exists()
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY
    assert web.requests[-1] == "bytes=1500-"


def test_a_server_without_ranges_sends_all_again(web, file, tmp_path):
    web.ranges = False
    web.cut_after = [1000]
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY


def test_a_server_that_sends_another_range_is_asked_again(web, file, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY[:100])
    web.wrong_range = True
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY
    assert web.requests == ["bytes=100-", None]


def test_a_complete_part_needs_no_transfer(web, file, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY)
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY
    assert web.requests == [f"bytes={len(BODY)}-"]


def test_a_part_longer_than_the_file_is_thrown_away(web, file, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY + b"more")
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY


def test_a_part_of_another_file_is_thrown_away(web, file, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"something else")
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY
    assert web.requests == ["bytes=14-", None]


def test_a_truncated_file_of_unknown_length_is_noticed(web, file, tmp_path):
    web.says_length = False
    web.cut_after = [1000]
    with pytest.raises(ConnectionError, match="wrong checksum"):
        download(file, tmp_path / "data.bin")
    assert left_in(tmp_path) == set()
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY


def test_a_wrong_checksum_leaves_nothing_and_says_both(web, file, tmp_path):
    web.files["data.bin"] = b"something else"
    wrong = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(
        ConnectionError, match=f"wrong checksum sha256:{wrong}"
    ) as error:
        download(file, tmp_path / "data.bin")
    assert DIGEST in str(error.value)
    assert left_in(tmp_path) == set()


def test_a_missing_page_is_not_asked_for_twice(web, tmp_path):
    gone = File("gone.bin", DIGEST, (web.url + "gone.bin",))
    with pytest.raises(ConnectionError, match=r"404.*\n.*put the file .* yourself"):
        download(gone, tmp_path / "gone.bin")
    assert len(web.requests) == 1


def test_a_servers_bad_moment_is_waited_out(web, file, tmp_path):
    web.status = [503, 500]
    assert download(file, tmp_path / "data.bin").read_bytes() == BODY
    assert len(web.requests) == 3


def test_a_server_that_stays_broken_is_given_up(web, file, tmp_path):
    web.status = [503] * 9
    with pytest.raises(ConnectionError, match="503"):
        download(file, tmp_path / "data.bin")
    assert len(web.requests) == _download.ATTEMPTS


def test_a_second_address_helps_when_the_first_is_gone(web, file, tmp_path):
    both = File("data.bin", DIGEST, (web.url + "old.bin", *file.urls))
    assert download(both, tmp_path / "data.bin").read_bytes() == BODY


def test_nobody_listening_is_reported_with_the_address(monkeypatch, tmp_path):
    monkeypatch.setattr("openset.datasets._download.PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    nowhere = File("x", DIGEST, ("http://127.0.0.1:9/x",))
    with pytest.raises(
        ConnectionError, match=r"http://127.0.0.1:9/x: interrupted 3 times"
    ):
        download(nowhere, tmp_path / "x")


def test_only_web_addresses_are_opened(monkeypatch, tmp_path):
    monkeypatch.setattr("openset.datasets._download.PAUSE", 0.0)
    (tmp_path / "secret").write_bytes(BODY)
    local = File("x", DIGEST, (f"file://{tmp_path}/secret",))
    with pytest.raises(ConnectionError, match="not a web address"):
        download(local, tmp_path / "x")


def test_a_progress_bar_is_shown_on_a_terminal(
    web, file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    download(file, tmp_path / "data.bin")
    assert "data.bin" in capsys.readouterr().err


def test_no_progress_bar_is_written_to_a_log(web, file, tmp_path, capsys):
    download(file, tmp_path / "data.bin")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("argument", "variable", "expected"),
    [
        (None, None, False),
        (None, "1", True),
        (None, "true", True),
        (None, "0", False),
        (None, "", False),
        (False, "1", False),
        (True, None, True),
    ],
)
def test_the_argument_beats_the_environment(argument, variable, expected, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("OPENSET_OFFLINE", variable)
    assert is_offline(offline=argument) is expected


def test_a_place_downloads_what_is_missing_once(web, file, tmp_path):
    place = DatasetFolder("set", tmp_path, offline=False, verify=True)
    assert place.files(file) == place.files(file) == [tmp_path / "set" / "data.bin"]
    assert len(web.requests) == 1


def test_offline_says_exactly_which_file_to_put_where(web, file, tmp_path):
    place = DatasetFolder("set", tmp_path, offline=True, verify=True)
    with pytest.raises(FileNotFoundError) as error:
        place.files(file)
    for part in (str(tmp_path / "set" / "data.bin"), DIGEST, file.urls[0], "OFFLINE"):
        assert part in str(error.value)
    assert web.requests == []


def test_a_damaged_file_on_disk_is_noticed_unless_told_not_to_look(file, tmp_path):
    (tmp_path / "data.bin").write_bytes(BODY[:-1])
    with pytest.raises(
        ArtefactError, match=r"data.bin must have sha256:.*verify=False"
    ):
        DatasetFolder("set", tmp_path, offline=True, verify=True).files(file)
    lenient = DatasetFolder("set", tmp_path, offline=True, verify=False)
    assert lenient.files(file) == [tmp_path / "data.bin"]
