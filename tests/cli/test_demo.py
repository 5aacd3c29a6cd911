"""`openset demo` and `openset doctor`."""

from importlib import metadata

import numpy as np
import pytest

from openset import __version__


def test_a_folder_is_no_markup_and_the_command_can_be_pasted(run, tmp_path):
    pytest.importorskip("jinja2", reason="the extra report")
    out = tmp_path / "[red] d"
    shown = run("demo", "--out", out)
    assert len(shown.splitlines()) < 50  # a first look fits a screen
    assert f"The rejector is saved in {out}/rejector," in shown
    assert f"openset predict '{out}/rejector' '{out}/unseen.npz'" in shown
    assert f"The report is {out}/report.html:" in shown
    # What the code of the README reads, which tests/test_docs.py runs.
    parts = {path.stem for path in out.glob("*.npz")}
    assert parts == {"train", "validation", "test", "surrogate", "unseen"}


def test_doctor_tells_versions_and_folders(run, run_json, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSET_DATA", str(tmp_path / "data"))
    found = run_json("doctor")
    assert found["openset"] == __version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["extras"]["report"].keys() == {"jinja2", "matplotlib"}
    assert not {"dev", "docs"} & found["extras"].keys()
    assert found["data"] == str(tmp_path / "data")
    assert "vowel" in found["data sets here"]  # it comes with the package
    lines = run("doctor").splitlines()
    assert max(len(line) for line in lines if line.startswith(" ")) <= 80


def test_what_is_missing_is_no_error(run, run_json, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert "numpy missing" in run("doctor")
    assert run_json("doctor")["packages"]["numpy"] is None
