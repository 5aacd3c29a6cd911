"""Rejectors by URL: what a folder gives and refuses, a URL gives and refuses."""

import hashlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import ArtefactError, Rejector, _urls, detectors, serve, shards
from openset.cli import app
from openset.rejector import copy_rejector
from openset.shards import _run
from tests.stores import Quiet, files, upload, web_server
from tests.unit.rejector.test_artefact import rewritten, state_of
from tests.unit.rejector.test_rejector import drawn

fsspec = pytest.importorskip("fsspec", reason="object stores are optional")

KEY = b"sixteen bytes are enough"
NEW = drawn(60, seed=4, labelled=False)


@pytest.fixture(scope="module")
def rejector():
    fitted = detectors.KNN(k=3).fit(drawn(300, seed=1))
    return Rejector.calibrate(
        fitted, known=drawn(200, seed=2), surrogate=drawn(200, seed=3, unknown=True)
    )


@pytest.fixture
def other():
    return Rejector.calibrate(
        detectors.MSP().fit(), known=drawn(200, seed=2), objective="at_tpr"
    )


@pytest.fixture
def folder(rejector, tmp_path):
    return rejector.save(tmp_path / "rejector", key=KEY)


def test_a_store_gives_back_what_was_saved(rejector, bucket, tmp_path):
    place = f"{bucket}/rejector"
    assert rejector.save(f"{place}/") == place
    near = rejector.save(tmp_path / "near")
    local = {path.name: path.read_bytes() for path in near.iterdir()}
    del local[".lock"]
    assert files(place) == local
    again = Rejector.load(f"{place}/")
    fsspec.url_to_fs(place)[0].rm(place, recursive=True)  # all was read
    np.testing.assert_array_equal(again.known(NEW), rejector.known(NEW))
    assert again.reference["known"].tolist() == rejector.reference["known"].tolist()
    assert again.reference_features.shape == rejector.reference_features.shape
    assert again.threshold == rejector.threshold


def test_a_web_server_gives_a_rejector_and_its_signature_holds(rejector, folder):
    with web_server(folder.parent) as web:
        again = Rejector.load(f"{web}/rejector", key=KEY)
        np.testing.assert_array_equal(again.known(NEW), rejector.known(NEW))
        with pytest.raises(ArtefactError, match="signed with another key"):
            Rejector.load(f"{web}/rejector", key=b"another key of bytes")
        with pytest.raises(FileNotFoundError, match=f"{web}/else/manifest.json"):
            Rejector.load(f"{web}/else")
        with pytest.raises(ConnectionError, match=r"state-.*could not be written"):
            rejector.save(f"{web}/new")


def shorten(folder):
    path = state_of(folder)
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(folder):
    path = state_of(folder)
    path.write_bytes(path.read_bytes() + bytes(1000))


def flip(folder):
    path = state_of(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def alter(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"knn"', '"msp"'))


def lead_elsewhere(folder):
    def change(manifest):
        (entry,) = manifest["files"].values()
        manifest["files"] = {"../state.npz": entry}

    rewritten(folder, change)


def name_a_plugin(folder):
    def change(manifest):
        manifest["detector"] |= {
            "name": "guest",
            "classes": [{"name": "guest", "class": "os:system", "distribution": None}],
        }

    rewritten(folder, change)


def hold_no_archive(folder):
    path = state_of(folder)
    path.write_bytes(b"no archive")

    def change(manifest):
        digest = hashlib.sha256(b"no archive").hexdigest()
        manifest["files"] = {path.name: {"bytes": 10, "sha256": digest}}

    rewritten(folder, change)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shorten, "state-.* is truncated: .* where the manifest says"),
        (lengthen, "state-.* is changed: .* where the manifest says"),
        (flip, "its sha256 is not that of the manifest"),
        (lambda folder: state_of(folder).unlink(), "state-.* is missing"),
        (alter, "manifest.json was changed after it was written"),
        (lead_elsewhere, "files must name state-HASH.npz"),
        (name_a_plugin, "guest"),
        (hold_no_archive, "damaged or not a .npz"),
    ],
)
def test_damage_and_forgery_are_refused_as_in_a_folder(
    spoil,
    message,
    folder,
    memory,
):
    spoil(folder)
    upload(folder, f"{memory}/rejector")
    found = {}
    for place in (folder, f"{memory}/rejector"):
        with pytest.raises((ArtefactError, ValueError), match=message) as raised:
            _ = Rejector.load(place).fitted
        found[str(place)] = type(raised.value), str(raised.value)
    here, there = found.values()
    assert here[0] is there[0]
    assert memory in there[1] or spoil is name_a_plugin


def test_no_more_is_taken_than_the_manifest_says(folder):
    class Endless(Quiet):
        given = 0

        def send_head(self):  # before the content, and for HEAD
            if "state" not in self.path:
                return super().send_head()
            self.send_response(200)
            self.end_headers()
            return None

        def do_GET(self):  # noqa: N802  # its name
            super().do_GET()
            if "state" not in self.path:
                return
            try:
                while Endless.given < 1 << 30:
                    Endless.given += self.wfile.write(bytes(1 << 16))
            except OSError:  # the client has gone
                return

    with (
        web_server(folder, Endless) as web,
        pytest.raises(ArtefactError, match="is changed: more"),
    ):
        Rejector.load(web)
    assert Endless.given < 1 << 30


def test_a_manifest_is_not_endless(folder, memory, monkeypatch):
    monkeypatch.setattr("openset.rejector._places._MOST_MANIFEST", 100)
    upload(folder, memory)
    with pytest.raises(ArtefactError, match="is no manifest: it is too long"):
        Rejector.load(memory)


def test_until_the_manifest_is_there_the_old_rejector_is(
    rejector, other, bucket, monkeypatch
):
    place = f"{bucket}/rejector"
    rejector.save(place)
    write = _urls.write

    def full(url, content, **options):
        if url.endswith("manifest.json"):
            msg = "quota"
            raise ConnectionError(msg)
        write(url, content, **options)

    with monkeypatch.context() as patched:
        patched.setattr(_urls, "write", full)
        with pytest.raises(ConnectionError, match="quota"):
            other.save(place)
    assert Rejector.load(place).fitted.detector == detectors.KNN(k=3)
    other.save(place)
    assert Rejector.load(place).fitted.detector == detectors.MSP()


def test_a_rejector_saved_meanwhile_is_loaded(rejector, other, memory, monkeypatch):
    rejector.save(memory)
    old = files(memory)["manifest.json"]
    read = _urls.read

    def slow(url, **options):
        content = read(url, **options)
        if content == old:
            fsspec.url_to_fs(memory)[0].rm(memory, recursive=True)
            other.save(memory)
        return content

    monkeypatch.setattr(_urls, "read", slow)
    assert Rejector.load(memory).fitted.detector == detectors.MSP()


def test_other_files_are_not_overwritten(rejector, bucket):
    fsspec.url_to_fs(bucket)[0].pipe_file(f"{bucket}/data/a.csv", b"1")
    for place in (f"{bucket}/data", f"{bucket}/data/a.csv"):
        with pytest.raises(
            ValueError, match=r"Rejector\.save: folder must be a new folder, or"
        ):
            rejector.save(place)


def test_a_local_folder_by_its_url_is_a_folder(rejector, tmp_path):
    place = tmp_path / "rejector"
    assert rejector.save(place.as_uri()) == place
    assert Rejector.load(place.as_uri()).threshold == rejector.threshold


def test_a_url_that_nobody_knows_is_named():
    with pytest.raises(ValueError, match=r"Rejector\.load: best://a must be a URL"):
        Rejector.load("best://a")


def run(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_commands_write_and_read_rejectors_by_url(memory, tmp_path):
    drawn(200, seed=2).save(tmp_path / "known.npz")
    drawn(200, seed=3, unknown=True).save(tmp_path / "unknown.npz")
    NEW.save(tmp_path / "new.npz")
    url, near = f"{memory}/rejector", tmp_path / "rejector"
    given = ("--known", tmp_path / "known.npz", "--surrogate", tmp_path / "unknown.npz")
    for place in (url, near):
        done = run("calibrate", "-d", "msp", *given, "--out", place, "--json")
        assert json.loads(done)["out"] == str(place)
    of_url, of_folder = (
        run("predict", place, tmp_path / "new.npz", "--csv") for place in (url, near)
    )
    assert of_url == of_folder
    (tmp_path / "shards").mkdir()
    NEW.save(tmp_path / "shards" / "a.npz")
    common = ("--backend", "sequential", "--format", "npz")
    run("predict", url, tmp_path / "shards", "--out", f"{memory}/out", *common)
    run("predict", near, tmp_path / "shards", "--out", tmp_path / "out", *common)
    there = files(f"{memory}/out")
    assert there["a.npz"] == (tmp_path / "out" / "a.npz").read_bytes()
    again = CliRunner().invoke(app, ["watch", url, str(tmp_path / "known.npz")])
    assert "known.npz" in again.output


def test_a_server_serves_what_was_there_when_it_started(rejector, memory, monkeypatch):
    pytest.importorskip("fastapi", reason="serving is optional")
    rejector.save(memory)
    served = []

    def start(make, **_):
        fsspec.url_to_fs(memory)[0].rm(memory, recursive=True)
        served.append(make().title)

    monkeypatch.setattr(serve, "run", start)
    run("serve", memory)
    assert len(served) == 1


def test_a_copy_is_a_rejector(rejector, memory, tmp_path):
    rejector.save(memory)
    copy_rejector(memory, tmp_path / "copy")
    again = Rejector.load(tmp_path / "copy")
    np.testing.assert_array_equal(again.known(NEW), rejector.known(NEW))


def test_workers_refuse_a_rejector_written_during_the_run(rejector, memory):
    rejector.save(memory)
    job = shards.Predict(memory)
    content = json.dumps(job.identity)
    _run._opened.cache_clear()
    assert _run._opened(job, content)
    rejector.save(memory, key=KEY)
    _run._opened.cache_clear()
    with pytest.raises(ArtefactError, match=r"openset predict: .* replaced during"):
        _run._opened(job, content)
