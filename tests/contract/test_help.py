"""What every page of help promises, in a terminal of 80 columns."""

import re
from itertools import pairwise

import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from openset.cli import app

WIDTH = 80
PROGRAMS = ("openset", "curl", "torchrun")


def pages(command, words=()):
    """Yield every command of a group, and of the groups in it, by its words."""
    yield words, command
    for name, part in getattr(command, "commands", {}).items():
        yield from pages(part, (*words, name))


PAGES = dict(pages(get_command(app)))


@pytest.fixture(params=PAGES, ids=lambda words: " ".join(words) or "openset")
def words(request):
    return request.param


@pytest.fixture
def text(words):
    result = CliRunner().invoke(
        app, [*words, "--help"], env={"COLUMNS": str(WIDTH)}, prog_name="openset"
    )
    assert result.exit_code == 0, result.output
    return Text.from_ansi(result.output).plain  # colours are forced on some machines


def paragraphs(text):
    """Return the lines of each paragraph outside the frames."""
    lines = [line.strip() for line in text.splitlines()]
    joined = "\n".join("" if line[:1] in "╭│╰" else line for line in lines)
    return [part.split("\n") for part in re.split(r"\n{2,}", joined.strip())]


def test_all_commands_are_looked_at():
    assert {("serve",), ("compare",), ("protocols", "outlier")} <= set(PAGES)


def test_nothing_is_cut(text, words):
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= WIDTH
    for param in PAGES[words].params:
        names = [name for name in param.opts if name.startswith("--")]
        assert all(re.search(rf"{name}\b", text) for name in names)


def test_paragraphs_fill_their_lines(text):
    for lines in paragraphs(text):
        if lines[0].startswith(PROGRAMS):
            continue
        for line, following in pairwise(lines):
            word = following.split()[0]
            room = WIDTH - 2 - len(line)  # a column is left free on each side
            assert len(word) >= room, f"{word!r} had room after {line!r}"


def test_examples_can_be_pasted(text):
    for lines in paragraphs(text):
        if lines[0].startswith(PROGRAMS):
            assert all(line.endswith(" \\") for line in lines[:-1]), lines


def test_no_word_is_taken_for_markup(words):
    for param in PAGES[words].params:
        said = getattr(param, "help", None) or ""
        assert Text.from_markup(said).plain == said


def test_arguments_are_capital_letters_and_flags_ask_for_no_value(text, words):
    usage = text.strip().splitlines()[0].removeprefix("Usage: openset")
    rest = usage.removeprefix("".join(f" {word}" for word in words))
    assert not re.search("[a-z]|[.]{3}}", rest), rest
    assert "<bool>" not in text
