"""The documentation: Markdown pages, docstrings and notebooks, built by Sphinx.

    make docs      # then open build/site/index.html, no server needed

Formulas become MathML, which browsers draw themselves: pages fetch nothing.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import openset

DOCS = Path(__file__).parent

project, version = "openset", openset.__version__
author = "The openset developers"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.md5", "**/sg_execution_times.rst"]
autodoc_mock_imports = ["torchmetrics", "transformers"]  # slow, and need not import
suppress_warnings = ["config.cache"]
default_role = "code"
myst_enable_extensions = ["dollarmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "openset"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
}


def api_pages() -> None:
    """Write a page for each public module: `.. automodule::` and its title."""
    home = importlib.import_module("openset.integrations").__path__
    guests = [m.name for m in pkgutil.iter_modules(home) if m.name[0] != "_"]
    inside = [n for n in openset.__all__ if inspect.ismodule(getattr(openset, n))]
    names = [*inside, *(f"integrations.{name}" for name in guests)]
    names.remove("integrations")
    folder = DOCS / "api"
    folder.mkdir(exist_ok=True)
    for name in ["openset", *(f"openset.{name}" for name in sorted(names))]:
        write(folder / f"{name}.rst", PAGE.format(name=name, line="=" * len(name)))


PAGE = """{name}
{line}

.. automodule:: {name}
   :members:
   :imported-members:
"""


def write(path: Path, text: str) -> None:
    """Write a file that is not yet so: Sphinx reads again what is newer."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


class Formulas:
    """Visitors that write formulas as MathML."""

    @staticmethod
    def visit(translator: HTML5Translator, node: nodes.Node) -> None:
        """Write a formula, in the line or on its own."""
        block = isinstance(node, nodes.math_block)
        tex = node.astext().strip()
        for word, known in {r"\tfrac": r"\frac", r"\dfrac": r"\frac"}.items():
            tex = tex.replace(word, known)
        tex = re.sub(
            r"\\[bB]ig{1,2}([lr])(?![a-z])",
            lambda found: {"l": r"\left", "r": r"\right"}[found[1]],
            tex,
        )
        if " &" in tex and r"\begin" not in tex:
            tex = rf"\begin{{align*}}{tex}\end{{align*}}"
        translator.body.append(convert(tex, display="block" if block else "inline"))
        raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Let Sphinx use what is written here."""
    api_pages()
    visitors = (Formulas.visit, None)
    app.add_html_math_renderer("mathml", visitors, visitors)
