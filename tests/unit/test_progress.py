"""The bar passes everything on, and is seen on terminals alone."""

from io import StringIO

import pytest
from rich.console import Console

from openset import _progress


@pytest.mark.parametrize(
    ("is_terminal", "show", "is_seen"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_bar_is_shown_where_it_can_be_seen(
    monkeypatch, is_terminal, show, is_seen, capsys
):
    stream = StringIO()

    def console(*, stderr):
        assert stderr
        return Console(file=stream, force_terminal=is_terminal)

    monkeypatch.setattr(_progress, "Console", console)
    assert list(_progress.bar(iter("abc"), "working", total=3, show=show)) == [
        "a",
        "b",
        "c",
    ]
    assert ("working" in stream.getvalue()) == is_seen
    if not is_seen:
        assert stream.getvalue() == ""  # not even an empty line
    assert capsys.readouterr().out == ""
