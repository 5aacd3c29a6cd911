"""Items, their tables, and what a run writes."""

import json

import pytest

from openset import reproduce
from openset.reproduce import Measured, Table

ITEMS = {item.name: item for item in reproduce.items()}


def test_entries_are_shown_by_kind():
    rows = (("a", Measured(0.5, 0.125), 0.25, True, 3), ("b", None, None, False, 4))
    columns = ("method", "published", "ours", "same", "n")
    table = Table(title="T", columns=columns, rows=rows, digits=2)
    assert table.markdown().splitlines() == [
        "| method | published | ours | same | n |",
        "|---|---:|---:|---:|---:|",
        "| a | 0.50 ± 0.12 | 0.25 | yes | 3 |",
        "| b |  |  | no | 4 |",
    ]


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_an_item_says_what_it_is_and_its_files_are_there(item):
    assert all((item.paper, item.number, item.what, item.needs, item.time))
    for file in item.options.get("published", {}).values():
        assert reproduce.published(file)


def test_an_unknown_name_lists_the_others(tmp_path):
    with pytest.raises(ValueError, match=r"^reproduce: name must be one of 'openauc-"):
        reproduce.run("openauc-table9", tmp_path)


@pytest.mark.parametrize(
    "name",
    ["class-imbalance-fig1", "class-imbalance-fig2", "class-imbalance-fig3"],
)
def test_a_run_writes_its_tables_and_figures(name, tmp_path):
    found = reproduce.run(name, tmp_path / "new")
    written = json.loads((tmp_path / "new/results.json").read_text("utf-8"))
    assert [table["title"] for table in written["tables"]] == [
        table.title for table in found.tables
    ]
    assert written["provenance"]["version"]
    (figure,) = written["figures"]
    assert (tmp_path / "new" / figure).stat().st_size > 0
    page = (tmp_path / "new/page.md").read_text("utf-8")
    assert found.tables[0].markdown() in page


def test_data_that_cannot_be_had_are_named_before_anything_is_trained(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    with pytest.raises((OSError, ValueError)) as caught:
        reproduce.run("class-imbalance-table1", tmp_path / "out", root=tmp_path)
    assert "needs the data sets cifar10, svhn" in caught.value.__notes__[-1]
    assert not list((tmp_path / "out").iterdir())
