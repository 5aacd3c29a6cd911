"""Tables in narrow and wide terminals: everything can be read."""

import json

import pytest

from openset import protocols
from openset.cli import terminal
from openset.protocols import Protocol

LONG = "a-very-long-name-without-any-place-to-break-it-" * 3


@pytest.fixture(params=[80, 120])
def shown(request, run, monkeypatch):
    """Run a command in a terminal of this width; return what it prints."""
    monkeypatch.setattr(terminal.OUT, "_width", request.param)

    def call(*words):
        text = run(*words)
        tables = [line for line in text.splitlines() if line.startswith(" ")]
        assert max(map(len, tables)) <= request.param
        joined = "".join(text.split())
        assert "…" not in joined.replace("…(", ""), "something was cut to fit"
        return joined

    return call


def test_published_protocols_are_shown_to_the_last_class(shown):
    text = shown("protocols")
    for name in protocols.names():
        one = protocols.published(name, protocols.splits(name)[0])
        assert f"{one.n_known}{one.n_unknown}{one.openness:.3f}" in text
        rows = shown("protocols", "show", name).replace(one.source, "")
        assert one.hash in rows
        is_long = max(one.n_known, one.n_unknown) > 200
        assert ("in--json" in rows) == is_long
        assert is_long or ",".join(map(str, one.known)) in rows


def test_long_names_are_folded(shown, tmp_path):
    path = tmp_path / "p.json"
    Protocol(known=[f"known-{LONG}"], unknown=[f"unknown-{LONG}"]).save(path)
    text = shown("protocols", "show", path)
    assert f"known1known-{LONG}" in text
    assert f"unknown1unknown-{LONG}" in text


@pytest.mark.parametrize("name", ["openauc-table1", "class-imbalance-fig3"])
def test_tables_of_many_columns_share_a_narrow_terminal(shown, tmp_path, name):
    text = shown("reproduce", name, "--out", tmp_path)
    for table in json.loads((tmp_path / "results.json").read_text("utf-8"))["tables"]:
        assert "".join(table["title"].split()) in text
    assert "yesyesnononono" in text or name != "openauc-table1"
