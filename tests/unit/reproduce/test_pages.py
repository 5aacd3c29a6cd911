"""The pages of the papers show what the results files hold."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from openset import reproduce

DOCS = Path(__file__).parents[3] / "docs"
if not DOCS.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

PAGES = sorted((DOCS / "papers").glob("*.md"))
FILES = sorted((DOCS / "papers" / "results").glob("*.json"))


def module():
    spec = importlib.util.spec_from_file_location(
        "paper_pages", DOCS / "paper_pages.py"
    )
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_results_files(page):
    text = page.read_text("utf-8")
    assert module().written(text) == text, "run: make docs"


def test_a_changed_result_changes_its_page(tmp_path, monkeypatch):
    pages = module()
    path = FILES[0]
    data = json.loads(path.read_text("utf-8"))
    data["tables"][0]["title"] = "changed"
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / path.name).write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.setattr(pages, "PAPERS", tmp_path)
    marks = f"<!-- results: {path.stem} -->\nold\n<!-- end -->"
    assert "**changed**" in pages.written(marks)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_results_file_is_shown_and_made_by_an_item(path):
    made = reproduce.load(path)
    assert made.name == path.stem
    program, _, rest = made.command.partition(" ")
    if program == "openset":
        assert reproduce.get(made.name).number == made.number
    else:
        assert (DOCS.parent / rest.split()[0]).exists()
    mark = f"<!-- results: {made.name} -->"
    assert any(mark in page.read_text("utf-8") for page in PAGES)


BENCHMARKS = DOCS.parent / "benchmarks"
RUNS = BENCHMARKS / "results" / "openauc_training"


def training_script():
    path = BENCHMARKS / "openauc_training.py"
    spec = importlib.util.spec_from_file_location("openauc_training", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_runs_on_other_data_become_tables_of_their_own(tmp_path):
    lines = (RUNS / "runs.jsonl").read_text("utf-8").splitlines()
    line = json.loads(lines[0]) | {"data": "mnist", "variant": "rpl", "note": ""}
    text = "\n".join([*lines, json.dumps(line)])
    (tmp_path / "runs.jsonl").write_text(text, encoding="utf-8")
    script = training_script()
    before, after = (script.reproduction(one).tables for one in (RUNS, tmp_path))
    assert after[:-1] == before
    assert after[-1].title == f"OpenAUC on MNIST, percent, {line['epochs']} epochs"
    assert after[-1].note.endswith("pixels: as published.")
    assert [row[0] for row in after[-1].rows] == ["rpl"]


def test_trained_results_are_those_of_the_runs(tmp_path):
    made = training_script().reproduction(RUNS)
    file = DOCS / "papers" / "results" / f"{made.name}.json"
    assert made.save(tmp_path / "again.json").read_bytes() == file.read_bytes()


def test_every_item_is_named_on_a_page():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for item in reproduce.items():
        assert re.search(rf"openset reproduce {item.name}\b", text), item.name


def test_a_page_shows_the_mean_of_every_table_that_has_one():
    pages, made = module(), reproduce.load(FILES[0].with_name("postmax-table2.json"))
    joined = pages.means(made.tables)
    shown = [tuple(row[1:]) for table in joined for row in table.rows]
    for table in made.tables:
        rows = table.rows[-1:] if table.rows[-1][0] == "mean" else table.rows
        for row in rows:
            shown.remove(tuple(row[1:]))
    assert not shown
    assert len({table.title for table in joined}) == len(joined) == 4


def test_comparisons_beside_each_other_keep_difference_and_p():
    pages, made = module(), reproduce.load(FILES[0].with_name("postmax-tests.json"))
    wide = pages.beside(made.tables[1])
    found = {row[:2]: dict(zip(wide.columns, row, strict=True)) for row in wide.rows}
    for network, metric, other, difference, _, p, *_ in made.tables[1].rows:
        cell = found[network, metric][f"against {other} (p)"]
        assert cell == f"{difference:+.3f} ({p})"


def test_a_note_stands_once_on_a_page():
    page = (DOCS / "papers" / "postmax.md").read_text("utf-8")
    notes = [line for line in page.splitlines() if line.startswith("- ")]
    assert len(set(notes)) == len(notes)
