"""Table 1 of the OpenAUC paper."""

import pytest

from openset import reproduce


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return reproduce.run("openauc-table1", tmp_path_factory.mktemp("table1")).tables


def test_every_property_is_shown_by_its_construction(tables):
    for name, *entries in tables[0].rows:
        said, ours = entries[::2], entries[1::2]
        assert ours == said, name


def test_the_constructions_do_what_the_propositions_say(tables):
    *_, propositions = tables
    rows = {f"{row[0]}, {row[1]}": row[2:] for row in propositions.rows}
    assert len(rows) == 4
    for name, (before, after, found, found_after, openauc, other) in rows.items():
        assert after >= before - 1e-12, name  # the metric sees nothing, or likes it
        if "proposition 3" in name:
            assert other < openauc, name
        else:
            assert found_after <= 1 < found, name
