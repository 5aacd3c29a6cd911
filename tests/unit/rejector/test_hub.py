"""Rejectors on a hub: the real client against a small hub of our own."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import ArtefactError, Outputs, Rejector, detectors
from tests.extras import yaml

REPO = "someone/rejector"
TOKEN = "none"  # noqa: S105  # of nobody


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as one repository of small files needs."""

    files: dict[str, bytes]

    @property
    def sha(self):
        """Of the last commit."""
        return hashlib.sha1(repr(self.files).encode()).hexdigest()  # noqa: S324

    @property
    def here(self):
        """Address of the repository."""
        return f"http://{self.headers['Host']}/{REPO}"

    def answer(self, document, status=200):
        """Answer with JSON."""
        self.send(json.dumps(document).encode(), status, kind="application/json")

    def send(self, content, status=200, kind="application/octet-stream", **headers):
        """Answer with bytes."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self):
        """Make the repository, or take a commit."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            self.answer({"url": self.here, "name": REPO, "id": REPO})
        elif "/preupload/" in self.path:
            wanted = json.loads(body)["files"]
            as_is = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            self.answer({"files": [{"path": f["path"], **as_is} for f in wanted]})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "deletedFile":
                    del self.files[value["path"]]
            at = f"{self.here}/commit/{self.sha}"
            self.answer({"commitUrl": at, "commitOid": self.sha})
        else:
            self.answer({"errors": [], "warnings": []})

    def do_GET(self):
        """Send a file, or what there is."""
        found = re.match(rf"/{REPO}/resolve/[^/]+/(.+)", self.path)
        if found:
            content = self.files[found[1]]
            tag = hashlib.sha1(content).hexdigest()  # noqa: S324
            self.send(content, ETag=f'"{tag}"', X_Repo_Commit=self.sha)
        elif "/tree/" in self.path:
            self.answer(
                [
                    {"type": "file", "path": n, "size": len(c), "oid": "0"}
                    for n, c in self.files.items()
                ]
            )
        elif self.path.startswith(f"/api/models/{REPO}"):
            siblings = [{"rfilename": name} for name in self.files]
            self.answer({"id": REPO, "sha": self.sha, "siblings": siblings})
        else:
            self.answer({}, 404)

    do_HEAD = do_GET  # noqa: N815  # the name of the interface

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Start a hub, and let the client use it."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="extra hub")
    kind = type("OneHub", (Hub,), {"files": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        here = f"http://127.0.0.1:{server.server_port}"
        for name, value in {
            "ENDPOINT": here,
            "HUGGINGFACE_CO_URL_TEMPLATE": here
            + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        yield kind
        server.shutdown()
        thread.join()


def samples(rng, n=60, classes=("cat", "dog")):
    labels = rng.integers(0, 2, n)
    features = rng.normal(size=(n, 3)) + 3 * np.eye(2, 3)[labels]
    logits = features[:, :2]
    return Outputs(logits=logits, features=features, labels=labels, classes=classes)


def calibrated(rng, **options):
    fitted = detectors.KNN(k=2).fit(samples(rng, **options))
    unknown = Outputs(
        logits=rng.normal(size=(40, 2)),
        features=rng.normal(size=(40, 3)),
        groups=np.repeat(["near", "far"], 20),
    )
    known = samples(rng, **options)
    return Rejector.calibrate(fitted, known=known, surrogate=unknown, alpha=0.7)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client's own
def test_a_rejector_goes_to_the_hub_and_comes_back(rng, hub):
    old, new, outputs = calibrated(rng), calibrated(rng), samples(rng)
    for rejector in (old, new):
        assert rejector.push_to_hub(REPO, token=TOKEN).startswith("http://127.0.0.1:")
        names = sorted(re.sub("-[0-9a-f]+", "", name) for name in hub.files)
        assert names == ["README.md", "manifest.json", "state.npz"]
    found = Rejector.from_hub(REPO, token=TOKEN)
    assert found.threshold == new.threshold
    assert_array_equal(found.known(outputs), new.known(outputs))
    assert_array_equal(found.reference["known"], new.reference["known"])
    card = hub.files["README.md"].decode()
    assert f"# {REPO}" in card
    assert f"Rejector.from_hub('{REPO}')" in card


def test_a_folder_of_that_form_is_a_rejector_with_a_card(rng, tmp_path):
    rejector = calibrated(rng)
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / ".gitattributes").write_text("*.npz filter=lfs\n")  # an empty repository
    rejector.save_for_hub(folder)
    for opened in (Rejector.from_hub(folder), Rejector.load(folder)):
        assert opened.threshold == rejector.threshold
    text = (folder / "README.md").read_text("utf-8")
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "openset"
    for fact in (
        "| objective | `osa` |",
        "| α, the weight of known samples | 0.7 |",
        f"| threshold on knownness | {rejector.threshold.value:.6g} |",
        f"{rejector.threshold.interval.high:.6g}] |",
        "| calibration samples | 60 known, 40 unknown |",
        "| far | 20 | ",
        "2: cat, dog",
        f"| cautions | {', '.join(rejector.report.codes)} |",
    ):
        assert fact in body
    assert rejector.report.codes
    rejector.save_for_hub(folder)  # over the old one
    assert (folder / "README.md").read_text("utf-8") == text


def test_names_of_classes_cannot_break_the_card(rng):
    classes = ("a|b\n# head", "<script>\x1b[2J")
    rejector = calibrated(rng, classes=classes)
    card = rejector.model_card()
    assert "2: a\\|b # head, &lt;script>\N{REPLACEMENT CHARACTER}[2J" in card


def test_a_folder_with_other_things_is_not_written_to(rng, tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match="which holds something else"):
        calibrated(rng).save_for_hub(tmp_path)
    with pytest.raises(ArtefactError, match="is not a rejector"):
        Rejector.from_hub(tmp_path)
