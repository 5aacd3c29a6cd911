"""Items of the OpenAUC paper."""

from openset import reproduce
from openset.metrics import Rates
from openset.reproduce import _properties


def test_every_property_of_table_1_is_shown_by_its_construction():
    made = _properties.constructions()
    paper = reproduce.published("openauc-table1")
    for name, measure in _properties._METRICS.items():
        found = _properties.properties(measure, made)
        ours = [
            found.sees_classes,
            found.sees_unknowns,
            found.needs_no_threshold,
            found.orders_models,
        ]
        said = [bool(entry.value) for entry in paper.values[name].values()]
        assert ours == said, name


def test_the_constructions_do_what_the_propositions_say():
    made = _properties.constructions()
    assert made.exchanged.complete
    assert made.exchanged.found_after == 0 < made.exchanged.found_before
    assert made.exchanged.after == made.exchanged.before
    assert made.let_in.after > made.let_in.before
    assert made.let_in.found_after <= 1
    # Only classes change, so a detector sees the same.
    before, after = (
        Rates.at(scores, made.threshold) for scores in (made.scores, made.misclassified)
    )
    assert before.n_rejected_unknown == after.n_rejected_unknown
