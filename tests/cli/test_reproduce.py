"""`openset reproduce`."""

from openset import reproduce


def test_the_command_lists_and_runs(run, tmp_path):  # test_widths.py reads more
    names = {one.name for one in reproduce.items()}
    assert names <= set(run("reproduce", "--list").split())
    text = run("reproduce", "openauc-table1", "--out", tmp_path)
    assert f"wrote {tmp_path / 'page.md'}" in text.replace("\n", "")
