"""`openset watch`: files in, a table and an exit code out."""

import json

import pytest

from openset import Rejector, watch
from tests.cli.conftest import outputs


@pytest.fixture
def days(files, tmp_path):
    """Write samples of normal operation, with more unknown ones, and of others."""
    for name, unknown, seed in (("quiet", 0, 20), ("strange", 0.5, 21)):
        outputs(300, unknown, seed=seed).save(tmp_path / f"{name}.npz")
    return tmp_path


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_the_exit_code_says_whether_something_changed(run, days):
    quiet = run("watch", "rejector", days / "quiet.npz")
    assert "At most 1% of windows give a false alarm" in quiet
    assert "alarm" not in quiet.partition("\n")[2]
    text = run("watch", "rejector", days / "quiet.npz", days / "strange.npz", code=1)
    assert text.count("alarm") >= 2
    found = watch.compare(Rejector.load("rejector"), [days / "strange.npz"])
    one = found["strange.npz"]
    assert f"{one.unknown_rate.new:.4f}" in text
    assert f"strange.npz: {one.advice}" in " ".join(text.split())
    assert "quiet.npz: about" in text


def test_json_lines_are_the_verdicts_of_the_library(run, days):
    names = [days / "quiet.npz", days / "strange.npz"]
    options = {"reference": "test.npz", "window": 200}
    words = "--reference", "test.npz", "--window", 200, "--false-alarms", 1e-3
    text = run("watch", "rejector", *names, *words, "--json", code=1)
    rejector = Rejector.load("rejector")
    found = watch.compare(rejector, names, **options, false_alarms=1e-3)
    assert [*found] == ["0…199", "200…399", "400…599"]
    wanted = [{"window": name, **one.to_dict()} for name, one in found.items()]
    assert lines(text) == json.loads(json.dumps(wanted))
