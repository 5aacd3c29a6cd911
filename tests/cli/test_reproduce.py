"""`openset reproduce`."""

import json

from openset import reproduce


def test_the_command_lists_and_runs(run, tmp_path):
    names = {one.name for one in reproduce.items()}
    assert names <= set(run("reproduce", "--list").split())
    text = run("reproduce", "openauc-table1", "--out", tmp_path / "a")
    assert text.splitlines()[0] == "Properties"
    written = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    assert f"wrote {tmp_path / 'a/page.md'}" in text.replace("\n", "")
    assert all(one["title"] in text for one in written["tables"])
