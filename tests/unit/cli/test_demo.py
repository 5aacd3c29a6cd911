"""`openset demo`: what it says about folders and missing extras."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import openset
from openset import MissingExtraError
from openset.cli import app


def run(out):
    return CliRunner().invoke(app, ["demo", "--out", str(out)])


def test_a_folder_is_no_markup_and_the_command_can_be_pasted(tmp_path, monkeypatch):
    pytest.importorskip("jinja2", reason="the extra report")
    monkeypatch.chdir(tmp_path)
    shown = run("[red] d").output
    assert len(shown.splitlines()) < 50  # a first look fits a screen
    said = " ".join(shown.split())
    assert "The rejector is saved in [red] d/rejector," in said
    assert "openset predict '[red] d/rejector' '[red] d/unseen.npz'" in said
    assert "The report is [red] d/report.html:" in said
    # The first code of the README runs as printed on what the demo wrote.
    Path("demo-output").symlink_to("[red] d")
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    exec(code[1], names := {})  # noqa: S102  # our own page
    assert 0.9 < names["result"]["openauc"] < 1
    assert Path("rejector").is_dir()


def test_a_missing_extra_is_named_in_full(tmp_path, monkeypatch):
    def missing(*_):
        msg = 'report: needs jinja2; install it with: pip install "openset[report]"'
        raise MissingExtraError(msg)

    monkeypatch.setattr(openset.report, "write", missing)
    said = " ".join(run(tmp_path).output.split())
    assert 'pip install "openset[report]"' in said


def test_a_folder_that_cannot_be_is_said_before_anything_is_trained(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(openset, "demo", lambda *_: pytest.fail("was trained"))
    (tmp_path / "file").write_text("")
    error = run(tmp_path / "file").exception
    assert isinstance(error, NotADirectoryError)
    assert "--out must be a folder" in str(error)
