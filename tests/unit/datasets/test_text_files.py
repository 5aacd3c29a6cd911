"""Tables of texts with labels."""

import pytest

from openset import ArtefactError, datasets


def write(path, *lines):
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_table_of_texts_is_a_data_set(tmp_path):
    found = datasets.load(
        write(tmp_path / "mail.csv", "label,text", 'pay,"a bill, mine"', "book,a table")
    )
    assert (found.kind, found.name, found.classes) == ("text", "mail", ("book", "pay"))
    assert found.inputs.tolist() == ["a bill, mine", "a table"]
    assert found.labels.tolist() == [1, 0]
    assert not found.parts


def test_parts_are_those_of_the_column(tmp_path):
    lines = "text\tlabel\tpart", "a\tx\ttest", "b\ty\ttrain", "c\tx\ttest"
    found = datasets.load(write(tmp_path / "mail.tsv", *lines))
    texts = {part: found.inputs[rows].tolist() for part, rows in found.parts.items()}
    assert texts == {"train": ["b"], "test": ["a", "c"]}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("a,b", "1,2"), "columns text and label, .*got the columns a, b"),
        (("text,label",), "got no rows"),
        (("text,label", "a,x", ",y"), "a text and a label in line 3"),
    ],
)
def test_other_tables_are_refused(tmp_path, lines, words):
    with pytest.raises(ArtefactError, match=words):
        datasets.load(write(tmp_path / "t.csv", *lines))


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"part in .* must be one of 'train'"):
        datasets.load(write(tmp_path / "t.csv", "text,label,part", "a,x,dev"))


def test_a_comma_outside_quotes_is_refused(tmp_path):
    # The label would be " mine", the rest of the text.
    path = write(
        tmp_path / "mail.csv", "text,label", "a table,book", "a bill, mine,pay"
    )
    with pytest.raises(
        ArtefactError, match="2 columns in every row, got more in row 3"
    ):
        datasets.load(path)
    path = write(tmp_path / "first.csv", "text,label", "a bill, mine,pay", "a,b")
    with pytest.raises(
        ArtefactError, match="2 columns in every row, got more in row 2"
    ):
        datasets.load(path)
