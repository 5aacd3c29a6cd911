"""Names from anywhere: none is acted on by a terminal or a spreadsheet."""

import io

import numpy as np
import pytest
from rich.table import Table

from openset import Outputs, Rejector, detectors
from openset.cli.terminal import SafeConsole
from openset.outputs import replaced
from tests.cli.conftest import outputs

ESCAPE = "\x1b]0;owned\x07"
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
    assert not {"\x1b", "\x07"} & {*found}
    assert "]0;owne" in found or "x.csv" in words  # the rest of the name is shown
    assert "[x]" in found or "NEW" not in words  # and no markup
    assert "[b]" in found or words != COMMANDS[0]


def test_a_console_shows_what_it_would_have_sent():
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, width=60)
    table = Table("a\x1b[2J")
    table.add_row("[red]red[/red] b\x9b31m \u202ereversed")
    console.print(table, "\x07")
    text = stream.getvalue()
    assert "\x1b[31mred" in text  # our own colours are sent
    assert "\x1b[2J" not in text
    assert not {"\x9b", "\u202e", "\x07"} & {*text}
