"""`Table`: records with the same columns."""

import pytest

from openset.thresholds.table import Table


def test_a_table_has_columns():
    table = Table(({"a": 1, "b": 2}, {"a": 3, "b": 4}))
    assert (len(table), table.columns, table[1]["a"]) == (2, ("a", "b"), 3)
    assert table.to_frame().a.tolist() == [1, 3]
    with pytest.raises(ValueError, match="name must be one of 'a', 'b'"):
        table.column("c")
    assert (Table(({"a": 1},)).columns, Table(()).columns) == (("a",), ())
