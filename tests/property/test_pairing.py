"""Samples are paired by their ids, as by looking up one after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openset import Scores
from tests.property.strategies import scores

IDS = st.one_of(
    st.lists(st.integers(-20, 20), min_size=24, max_size=24),
    st.lists(st.integers(-99, 99), min_size=24, max_size=24, unique=True),
    st.lists(st.text("ab é0", max_size=3), min_size=24, max_size=24),
    st.lists(st.text("ab é0", max_size=5), min_size=24, max_size=24, unique=True),
)


def looked_up(ids, wanted):
    """Return the row of each wanted id; None if not every one is there once."""
    if ids == wanted:
        return list(range(len(ids)))
    if len(set(ids)) < len(ids) or sorted(ids) != sorted(wanted):
        return None
    return [ids.index(one) for one in wanted]


@given(scores(), IDS, st.data())
def test_rows_are_those_of_the_same_ids(made, ids, data):
    n = len(made)
    first = Scores(
        labels=made.labels, predicted=made.predicted, known=np.arange(n), ids=ids[:n]
    )
    rows = data.draw(
        st.one_of(
            st.permutations(range(n)),
            st.lists(st.integers(0, n - 1), min_size=1, max_size=n + 2),
        )
    )
    other = first.take(rows)
    wanted = looked_up(other.ids.tolist(), first.ids.tolist())
    if wanted is None:
        with pytest.raises(ValueError, match=r"^Scores\.in_order_of: these"):
            other.in_order_of(first)
        return
    expected = other.known[wanted].tolist()
    if other.labels[wanted].tolist() != first.labels.tolist():  # ids that repeat
        with pytest.raises(ValueError, match="labels of these scores must be those"):
            other.in_order_of(first)
        return
    assert other.in_order_of(first).known.tolist() == expected
