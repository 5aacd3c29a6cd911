"""What is packed for the explorer; test_browser.py drives it."""

import pytest

from openset.report import explorer
from openset.report.read import Run, Value
from tests.report.studies import render, scores

RUN = Run(method="a", values={})


def test_detectors_on_one_network_share_its_labels():
    one = scores(1)
    known, other = explorer.pack(
        [(RUN, one), (RUN, one.with_known(one.known + 1))]
    ).cells
    assert known["label"] == other["label"]
    assert known["known"] != other["known"]


def test_decisions_by_a_rule_are_known():
    ruled = {"overall_score": Value(0.5)}
    for values, used, is_by_rule in ((ruled, None, 1), (ruled, 0.5, 0), ({}, None, 0)):
        run = Run(method="a", values=values, threshold=used)
        (packed,) = explorer.pack([(run, scores(1))]).cells
        assert packed["by_rule"] == is_by_rule


def test_many_samples_make_a_page_of_a_few_megabytes_that_says_so(
    tmp_path, monkeypatch
):
    pytest.importorskip("jinja2", reason="the extra report")
    (tmp_path / "study" / "scores").mkdir(parents=True)
    for i in range(4):
        scores(i, 100_000).save(tmp_path / "study" / "scores" / f"{i}.npz")
    page = render(tmp_path / "study")
    assert len(page.source) < 8_000_000
    assert "The explorer has 3 of 4 cells" in page.text
    monkeypatch.setattr(explorer, "MOST_SAMPLES", 100)
    (packed,) = explorer.pack([(RUN, scores(1))]).cells
    assert (packed["n"], packed["shown"]) == (400, 100)
    assert packed["row"] is not None
