"""`openset reproduce`."""

import json

import pytest

from openset import reproduce
from openset.cli import main


def test_the_command_lists_and_runs(run, tmp_path):
    names = {one.name for one in reproduce.items()}
    assert names <= set(run("reproduce", "--list").split())
    text = run("reproduce", "openauc-table1", "--out", tmp_path / "a")
    assert text.splitlines()[0] == "Properties"
    written = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    assert f"wrote {tmp_path / 'a/page.md'}" in text.replace("\n", "")
    assert all(one["title"] in text for one in written["tables"])


def test_data_that_cannot_be_had_end_with_exit_code_1(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "openauc-table2-plus", "--root", "."])
    assert end.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "needs the data sets cifar10, cifar100. openset datasets says how" in said
    assert not list((tmp_path / "reproduced/openauc-table2-plus").iterdir())


def test_an_unknown_name_lists_the_others(capsys):
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "openauc-table9"])
    assert end.value.code == 2
    assert "one of 'openauc-table1'" in capsys.readouterr().err
