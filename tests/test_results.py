"""Results: one row per number, filtered, joined, saved."""

import numpy as np
import pytest

from openset import ArtefactError
from openset.results import Result, Results
from tests.extras import pandas as pd

ROWS = [
    Result(detector="a, b", seed=1, split=3, metric="auroc", value=1 / 3, n=7),
    Result(model="m", repeat=2, metric="nll", value=2),
]


@pytest.mark.parametrize("better", [{}, {"nll": "lower"}])
def test_a_file_holds_rows_to_the_last_bit_and_directions(tmp_path, better):
    table = Results(ROWS, better=better)
    again = Results.load(table.save(tmp_path / "results.csv"))
    assert (list(again), again.better) == (ROWS, better)
    assert isinstance(again.to_frame(), pd.DataFrame)
    assert again.to_frame().loc[0, "value"] == 1 / 3


def test_tables_are_joined_and_filtered_with_their_directions():
    one, other = Results(ROWS, better={"nll": "lower"}), Results(ROWS[:1])
    assert len(one + other) == 3
    for kept in (one + other, one.where(metric="nll")):
        assert kept.better == {"nll": "lower"}


def test_a_result_holds_a_plain_number():
    value = Result(metric="auroc", value=np.float32(0.1)).value
    assert (type(value), value) == (float, float(np.float32(0.1)))
    for bad in ("0.5", None, np.nan):
        with pytest.raises(ValueError, match="Result: value must be a number"):
            Result(metric="auroc", value=bad)


def test_results_are_read_from_a_spreadsheets_file_too(tmp_path):
    path = tmp_path / "results.csv"
    path.write_bytes(b"\xef\xbb\xbfmetric,value\r\nauroc,0.5\r\n")
    assert list(Results.load(path)) == [Result(metric="auroc", value=0.5)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("metric,colour\nauroc,red\n", "unexpected keyword argument 'colour'"),
        ("metric,value\nauroc,x\n", "could not convert"),
        ("metric,value\nauroc,1,2\n", "must be a string|keywords must be strings"),
        ("value,better\n1,lower\n", "'metric'"),
    ],
)
def test_a_file_of_something_else_is_named(tmp_path, text, words):
    (tmp_path / "results.csv").write_text(text)
    with pytest.raises(ArtefactError, match=rf"results\.csv is not a table.*({words})"):
        Results.load(tmp_path / "results.csv")
