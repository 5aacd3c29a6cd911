"""Random scores with ties, infinities, missing classes and lopsided sides."""

import numpy as np
from hypothesis import strategies as st

from openset import Scores

VALUES = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([-np.inf, np.inf, 1e12, -1e12, 0.0, -0.0]),
    st.floats(-10, 10, allow_nan=False),
)


@st.composite
def scores(draw, max_side=12, max_classes=4):
    """At least one known and one unknown sample, in random row order."""
    n_known = draw(st.integers(1, max_side))
    n_unknown = draw(st.integers(1, max_side))
    n = n_known + n_unknown
    n_classes = draw(st.integers(1, max_classes))
    class_of = st.integers(0, n_classes - 1)
    labels = draw(st.lists(class_of, min_size=n_known, max_size=n_known))
    labels += [-1] * n_unknown
    predicted = draw(st.lists(class_of, min_size=n, max_size=n))
    known = draw(st.lists(VALUES, min_size=n, max_size=n))
    order = draw(st.permutations(range(n)))
    pick = lambda values: [values[i] for i in order]  # noqa: E731
    return Scores(labels=pick(labels), predicted=pick(predicted), known=pick(known))


@st.composite
def scores_and_threshold(draw):
    """Scores and a threshold: one of theirs, between them, or infinite."""
    made = draw(scores())
    threshold = draw(
        st.one_of(
            st.sampled_from(made.known.tolist()),
            st.floats(-10, 10, allow_nan=False),
            st.sampled_from([np.inf, -np.inf]),
        )
    )
    return made, threshold
