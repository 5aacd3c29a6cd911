"""The run folder: cells survive the round trip, damage is named."""

from dataclasses import replace

import pytest

from openset import ArtefactError, Scores
from openset.runs import Cell, failures, finished, read_cells, results

KEY = {"protocol": "p", "model": "m", "method": "", "detector": "msp", "seed": 3}
ROW = {"metric": "auroc", "value": 1 / 3, "low": 0.1, "high": None, "n": 7}


def a_cell(**changes):
    provenance = {"version": "1", "started": "then"}
    return Cell(
        key=KEY | changes, rows=[ROW], classes=["<b>", "ä"], provenance=provenance
    )


def test_a_cell_survives_the_disk_bit_for_bit(tmp_path):
    cell = a_cell()
    path = cell.save(tmp_path)
    assert path == tmp_path / "cells" / f"{cell.id}.json"
    again = Cell.load(path)
    assert again.to_json() == cell.to_json()
    assert again.rows[0]["value"] == 1 / 3


def test_the_key_alone_names_a_cell():
    assert a_cell(seed=4).id != a_cell().id == replace(a_cell(), provenance={}).id


def test_scores_lie_beside_the_cell_and_a_failure_is_forgotten(tmp_path):
    cell = a_cell()
    failed = tmp_path / "failed" / f"{cell.id}.json"
    failed.parent.mkdir()
    failed.write_text('{"id": "x", "error": "no"}')
    assert failures(tmp_path) == [{"id": "x", "error": "no"}]
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 0.0])
    cell.save(tmp_path, scores=scores, calibration=scores.take([1, 0]))
    assert Scores.load(tmp_path / "scores" / f"{cell.id}.npz").known[0] == 1
    assert Scores.load(tmp_path / "calibration" / f"{cell.id}.npz").known[0] == 0
    assert failures(tmp_path) == []
    assert finished(tmp_path) == {cell.id}


def test_results_hold_every_row_of_every_cell_in_the_order_of_keys(tmp_path):
    for seed in (2, 0, 1):
        path = a_cell(seed=seed, repeat=5).save(tmp_path)
    path.with_name(f".{path.name}.k2j3").write_text('{"kind": "open')  # half-written
    assert [cell.key["seed"] for cell in read_cells(tmp_path)] == [0, 1, 2]
    table = results(tmp_path)
    assert table.column("seed").tolist() == [0, 1, 2]
    assert set(table.column("repeat")) == {5}
    assert set(table.column("value")) == {1 / 3}


@pytest.mark.parametrize(
    "text",
    ["[]", '{"kind": "openset.Cell", "schema": 2}', '{"kind": "open', "edited"],
)
def test_a_damaged_cell_is_named(tmp_path, text):
    path = a_cell().save(tmp_path)
    if text == "edited":
        text = path.read_text().replace('"msp"', '"better"')
    path.write_text(text)
    with pytest.raises(ArtefactError, match=rf"{path}.* Delete it and run the study"):
        read_cells(tmp_path)


def test_what_is_no_run_folder_says_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="openset bench"):
        read_cells(tmp_path)
