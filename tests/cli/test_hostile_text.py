"""Names from anywhere: none is acted on by a terminal or a spreadsheet."""

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors
from openset.outputs import replaced
from tests.cli.conftest import outputs

ESCAPE = "\x1b]0;owned\x07\u202e"
CLASSES = (f"{ESCAPE}ant", "@SUM(A1)", "+1[b]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write outputs, scores and a rejector with such names."""
    folder = tmp_path_factory.mktemp("hostile")
    known, far = outputs(200, 0, seed=1), outputs(200, 1, seed=2)
    kinds = np.repeat([f"{ESCAPE}near", "-2+3"], 100)
    known, far = (replaced(one, classes=CLASSES) for one in (known, far))
    far = replaced(far, groups=kinds)
    known.save(folder / "val.npz")
    far.save(folder / "far.npz")
    rejector = Rejector.calibrate(detectors.MSP().fit(), known=known, surrogate=far)
    rejector.save(folder / "rejector")
    replaced(known, groups=kinds, ids=[ESCAPE, *map(str, range(199))]).save(
        folder / "new.npz"
    )
    scores = detectors.MSP().fit().score(Outputs.concat([known, far]))
    for name in (f"a{ESCAPE}", "=b"):
        scores.save(folder / f"{name}.npz")
    return folder


COMMANDS = [
    "predict rejector new.npz",
    "calibrate --known val.npz --surrogate far.npz -d msp --accept-risk --out NEW",
    "evaluate A",
    "evaluate A --groups",
    "evaluate A --groups --out x.csv",
    "compare A =b.npz",
    "compare A =b.npz --out x.tex",
    "watch rejector --reference A A",
    "score -d msp new-labelled.npz --out NEW",
]


@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_sends_control_characters(
    folder, words, monkeypatch, capfd, tmp_path
):
    from openset.cli import main  # noqa: PLC0415  # after the fixtures

    monkeypatch.chdir(folder)
    Outputs.load("far.npz").save("new-labelled.npz")
    places = {"A": f"a{ESCAPE}.npz", "NEW": str(tmp_path / f"r{ESCAPE}[x]")}
    places |= {name: str(tmp_path / name) for name in ("x.csv", "x.tex")}
    with pytest.raises(SystemExit) as end:
        main([places.get(word, word) for word in words.split()])
    assert end.value.code in {0, 1}
    found = "".join([*capfd.readouterr()])
    found += "".join(one.read_text("utf-8") for one in tmp_path.glob("x.*"))
    assert not {"\x1b", "\x07", "\u202e"} & {*found}
    assert "]0;owne" in found or "x.csv" in words  # the rest of the name is shown
    assert "[x]" in found or "NEW" not in words  # and no markup
    assert "[b]" in found or words != COMMANDS[0]
