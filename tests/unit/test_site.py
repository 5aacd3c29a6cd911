"""The parts of the documentation site that can be tested without building it."""

import importlib
import sys
from pathlib import Path

import pytest

import openset
from openset import detectors

ROOT = Path(__file__).parents[2]
if not (ROOT / "mkdocs.yml").exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)


@pytest.fixture
def part(monkeypatch):
    """Import a module of docs/sitegen."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield lambda name: importlib.import_module(f"sitegen.{name}")
    for name in [one for one in sys.modules if one.partition(".")[0] == "sitegen"]:
        del sys.modules[name]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=str)
def test_notebooks_are_short_and_start_with_a_title(path, part):
    cells = part("notebook").cells(path.read_text("utf-8"))
    assert 4 <= len(cells) < 10
    kind, text = cells[0]
    assert kind == "markdown"
    assert text.startswith("# ")


def test_there_are_eight_notebooks(part):
    assert len(part("gallery").examples()) >= 8


def test_a_notebook_has_what_was_printed_and_the_last_value(part, tmp_path):
    path = tmp_path / "small.py"
    path.write_text("# %% [markdown]\n# # Sum\n# %%\nx = 20\nprint('x', x)\nx + 1\n")
    cells = part("notebook").executed(path)["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"]
    printed, value = cells[1]["outputs"]
    assert printed["text"] == "x 20\n"
    assert value["data"] == {"text/plain": "21"}


def test_a_leaderboard_is_shown_as_a_table(part, tmp_path):
    path = tmp_path / "board.py"
    path.write_text(
        "# %% [markdown]\n# # Board\n# %%\nfrom openset import results, stats\n"
        "rows = [results.Result(detector=name, metric='auroc', value=value)\n"
        "        for name, value in (('a', 0.5), ('b', 0.75))]\n"
        "stats.leaderboard(results.Results(rows), 'auroc')\n"
    )
    page = part("gallery").page(part("notebook").executed(path), path)
    assert "\n| b | **0.750**" in page


def test_a_cell_that_raises_stops_the_build(part, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("# %%\n1 / 0\n")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        part("gallery").run(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A :func:`ccr` of :math:`x_1`.", "A [`ccr`][openset.metrics.ccr] of $x_1$."),
        ("See :meth:`Fitted.score`.", "See `Fitted.score`."),
        ("Before.\n\n.. math:: a = b\n          + c\n\nAfter.",
         "Before.\n\n$$\na = b + c\n$$\n\n\nAfter."),
        ("==  ====\nA   one\nB   two\n==  ====",
         "|  |  |\n| --- | --- |\n| A | one |\n| B | two |"),
        ("==  ====\nx   what\n==  ====\nA   one\n==  ====",
         "| x | what |\n| --- | --- |\n| A | one |"),
        (">>> 1 + 1\n2\n", "```pycon\n>>> 1 + 1\n2\n```"),
        ("Examples\n--------\n>>> 1 + 1\n2", "Examples\n--------\n>>> 1 + 1\n2"),
    ],
)  # fmt: skip
def test_docstrings_become_markdown(text, expected, part):
    pytest.importorskip("griffe", reason="an extra")
    assert part("docstrings").markdown(text) == expected


def test_formulas_become_mathml(part):
    pytest.importorskip("latex2mathml", reason="an extra")
    page = r'<p><span class="arithmatex">\(a &lt; \tfrac{1}{2}\)</span></p>'
    drawn = part("formulas").drawn(page, "page.md")
    assert "<math" in drawn
    assert "arithmatex" not in drawn
    assert "<mfrac>" in drawn


def test_lines_of_a_formula_are_rows(part):
    pytest.importorskip("latex2mathml", reason="an extra")
    drawn = part("formulas").mathml(r"D &: a \\ G &= b", block=True)
    assert drawn.count("<mtr>") == 2
    assert "&<" not in drawn


def test_a_bar_covers_all_it_stands_over(part):
    pytest.importorskip("latex2mathml", reason="an extra")
    drawn = part("formulas").mathml(r"\overline{\overset{a}{b} + \hat y} + \hat z")
    start = drawn.index('<mrow class="overlined">')
    assert drawn.count("<mover") == drawn.count("</mover>") == 3
    assert drawn.index("<mover") > start
    assert drawn.count("<mrow") == drawn.count("</mrow>")
    assert "&#x02015;" not in drawn


def test_links_out_of_the_documentation_lead_to_its_pages(part):
    relinked = part("outside").relinked
    assert relinked("[b](../../benchmarks/README.md#x)", "results/a.md") == (
        "[b](../benchmarks.md#x)"
    )
    assert relinked("[c](../CHANGELOG.md)", "policy.md") == "[c](changelog.md)"
    assert relinked("[d](bench.md#a)", "index.md") == "[d](bench.md#a)"


def test_every_public_name_is_in_the_reference(part):
    modules = part("api").modules()
    assert set(modules["openset"]) == set(openset.__all__)
    assert "PostMax" in modules["openset.detectors"]
    assert not any("._" in name for name in modules)
    pages = part("api").pages().files
    for name in modules:
        assert f"::: {name}\n" in pages[f"api/{name}.md"]


def test_the_page_of_a_detector_says_what_it_needs(part):
    pytest.importorskip("griffe", reason="an extra")
    page = part("methods").detector_page("postmax")
    assert "| needs, to score | logits, features |" in page
    assert "Cruz, Rabinowitz, Günther and Boult" in page
    assert "<svg" in page
    assert "`norm`" in page


def test_every_training_method_was_run_for_its_plot(part):
    pytest.importorskip("griffe", reason="an extra")
    methods = pytest.importorskip("openset.train.methods", reason="an extra")
    missing = set(methods.REGISTRY.built_in()) - set(part("methods").training_runs())
    assert not missing, "run: python benchmarks/training_methods.py"


def test_the_page_of_a_training_method_has_a_plot_and_its_command(part):
    pytest.importorskip("griffe", reason="an extra")
    section = "\n".join(part("methods").on_digits("entropic", has_negatives=True))
    assert "5 digits are known, 2 others are unknown" in section
    assert "<svg" in section
    assert "Seeds 0 to 4" in section
    assert "openset train --method entropic --data digits --protocol" in section
    assert "--negatives digits" in section
    assert part("methods").on_digits("a guest", has_negatives=False) == []


def test_detectors_with_advice_exist(part):
    pytest.importorskip("griffe", reason="an extra")
    assert set(part("methods").WHEN) <= set(detectors.names())


def test_the_page_of_peers_counts_our_detectors():
    page = (ROOT / "docs" / "peers.md").read_text("utf-8")
    found = [detectors.find(name).__module__ for name in detectors.names()]
    n = sum(one.startswith("openset.detectors") for one in found)  # no guests of tests
    assert f"| post-hoc methods | {n} |" in page
