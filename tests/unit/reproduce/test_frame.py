"""The registry of items, their tables and their results files."""

import json
import re

import pytest
from typer.testing import CliRunner

from openset import reproduce
from openset._types import ArtefactError
from openset.bench import NoGPUError
from openset.cli import app
from openset.reproduce import Content, Item, Measured, Settings, Table


def item(make, name="one"):
    return Item(
        name=name, paper="P", number="Table 1", what="w", needs="n", time="t", make=make
    )


TABLE = Table(
    title="T",
    columns=("method", "published", "ours", "same", "n"),
    rows=(("a", Measured(0.5, 0.125), 0.25, True, 3), ("b", None, None, False, 4)),
    digits=2,
    note="note",
)


def test_a_table_survives_its_file():
    again = Table.from_dict(json.loads(json.dumps(TABLE.to_dict())))
    assert again == TABLE


def test_entries_are_shown_by_kind():
    assert TABLE.texts() == [
        ["a", "0.50 ± 0.12", "0.25", "yes", "3"],
        ["b", "", "", "no", "4"],
    ]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="a row must be as long as columns"):
        Table(title="", columns=("a", "b"), rows=((1,),))


def test_measured_is_mean_and_standard_deviation():
    made = Measured.of([1.0, 2.0, 4.0])
    assert made.value == pytest.approx(7 / 3)
    assert made.spread == pytest.approx(1.5275252)
    assert Measured.of([3.0]) == Measured(3.0, None, 1)


def test_names_are_unique_and_say_what_is_needed():
    names = [one.name for one in reproduce.items()]
    assert len(set(names)) == len(names)
    for one in reproduce.items():
        assert all((one.paper, one.number, one.what, one.needs, one.time))


def test_an_unknown_name_lists_the_others():
    with pytest.raises(ValueError, match="name must be one of"):
        reproduce.get("openauc-table9")


def test_a_run_writes_what_load_reads(tmp_path):
    made = reproduce.run(
        item(lambda settings: Content(tables=(TABLE,), notes=("remark",))),
        Settings(out=tmp_path / "new"),
    )
    again = reproduce.load(tmp_path / "new" / "results.json")
    assert again.tables == made.tables
    assert again.notes == ("remark",)
    assert "version" in again.provenance
    assert "- remark" in (tmp_path / "new" / "page.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("openauc-fig2", "openauc-fig2-small"),
        ("openauc-table2-plus", "openauc-table2-small"),
        ("class-imbalance-table1", "class-imbalance-small"),
        ("openauc-table4", None),
    ],
)
def test_without_a_gpu_the_small_version_is_named(tmp_path, name, small):
    def make(settings):
        raise NoGPUError

    with pytest.raises(NoGPUError, match=f"{name} needs a GPU") as caught:
        reproduce.run(item(make, name), Settings(out=tmp_path))
    named = re.findall(r"runs on a CPU: ([\w-]+)\.", str(caught.value))
    assert named == ([] if small is None else [small])


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "results.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ArtefactError, match="must be an openset"):
        reproduce.load(path)


def test_the_command_lists_and_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(app, ["reproduce", "--list"], env={"COLUMNS": "80"})
    lines = listed.output.splitlines()
    names = [line.split()[0] for line in lines if line.split()]
    assert all(one.name in names for one in reproduce.items())  # each on one line
    done = CliRunner().invoke(app, ["reproduce", "openauc-table1"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "reproduced" / "openauc-table1" / "results.json").exists()
