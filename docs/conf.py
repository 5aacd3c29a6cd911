"""The documentation: Markdown pages, docstrings and notebooks, built by Sphinx.

    make docs      # then open build/site/index.html, no server needed

Formulas become MathML, which browsers draw themselves: pages fetch nothing.
"""

import importlib
import inspect
import json
import os
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.scrapers import figure_rst

import openset

DOCS = Path(__file__).parent
CLAIMS = DOCS.parent / "benchmarks" / "results"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the notebooks' networks are small

project, version = "openset", openset.__version__
author = "The openset developers"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.md5", "**/sg_execution_times.rst", "site"]
autodoc_mock_imports = ["torchmetrics", "transformers"]  # slow, and need not import
suppress_warnings = ["config.cache"]
nitpicky = True  # of full names; classes in signatures are mostly those of others
nitpick_ignore_regex = [("py:class", ".*"), ("py:.*", r"\w+(\.\w+)?")]
default_role = "code"
myst_enable_extensions = ["dollarmath", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False
autodoc_default_options = {  # scikit-learn's own
    "exclude-members": "set_fit_request, set_score_request, get_metadata_routing"
}
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "openset"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_center": [],
    "globaltoc_maxdepth": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"**": ["globaltoc.html"]}


def displays(
    _block: object, run: dict[str, Any], conf: dict[str, Any], **_: object
) -> str:
    """Draw the display that a notebook's cell ends with."""
    last = run["example_globals"].get("___")
    if not isinstance(last, openset.report.Display):
        return ""
    path = next(run["image_path_iterator"])
    last.plot(path)
    run["example_globals"]["___"] = None
    return figure_rst([path], conf["src_dir"])


sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib", displays),
    "ignore_repr_types": r"openset\.report.*Display",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
}


def api_pages() -> None:
    """Write a page for each public module."""
    rooms = {n: getattr(openset, n) for n in sorted(openset.__all__)}
    rooms = {f"openset.{n}": m for n, m in rooms.items() if inspect.ismodule(m)}
    pages = {n: ", ".join(public(m)) for n, m in {"openset": openset, **rooms}.items()}
    home = rooms["openset.integrations"].__path__
    del pages["openset.integrations"]
    for name in ROOMS:
        module = importlib.import_module(name)
        pages[name] = ", ".join(public(module)) if hasattr(module, "__path__") else ""
    for guest in pkgutil.iter_modules(home, "openset.integrations."):
        if "_" not in guest.name:
            pages[guest.name] = ""
    (DOCS / "api").mkdir(exist_ok=True)
    for old in (DOCS / "api").glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, members in pages.items():
        imported = "\n   :imported-members:" if members else ""
        lines = f"   :members: {members}{imported}\n"
        text = f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n{lines}"
        write(DOCS / "api" / f"{name}.rst", text)


ROOMS = [  # within others
    *("openset.bench.named", "openset.datasets.image_lists", "openset.detectors.evt"),
    *("openset.detectors.constraints", "openset.metrics.counts"),
    *("openset.train.methods", "openset.train.networks"),
]


def public(module: ModuleType) -> list[str]:
    """Return what a package offers: of its list, or all, what is defined below it."""
    for name in getattr(module, "__all__", ()):
        setattr(module, name, getattr(module, name))  # some are imported only then
    below = f"{module.__name__}."
    return [
        name
        for name in getattr(module, "__all__", vars(module))
        if name[0] != "_"
        and str(getattr(getattr(module, name), "__module__", below)).startswith(below)
    ]


# Files outside of docs are pages, too.
PLACES = {
    r"(?:\.\./)*(CHANGELOG|CONTRIBUTING|SECURITY)\.md": r"/project/\1.md",
    r"(?:\.\./)*benchmarks/README\.md": "/benchmarks.md",
    r"(?:\.\./)*examples/README\.rst": "/gallery/index.rst",
    r"(?:\.\./)*examples/(\w+)\.py": r"/gallery/\1.rst",
    r"CITATION\.cff": "../CITATION.cff",
}


def relink(_app: Sphinx, *about: Any) -> None:
    """Let links that work in a checkout lead to pages."""
    for old, new in PLACES.items():
        about[-1][0] = re.sub(rf"\]\({old}((?:#[^)]*)?)\)", rf"]({new})", about[-1][0])


def write(path: Path, text: str) -> None:
    """Write a file that is not yet so: Sphinx reads again what is newer."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


class Results(SphinxDirective):
    """Show the tables of a results file, or the first few: `{results} NAME 2`."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read the file, which this page then depends on."""
        folders = (DOCS / "papers/results", CLAIMS, CLAIMS / "archive")
        name = f"{self.arguments[0]}.json"
        (path,) = (folder / name for folder in folders if (folder / name).exists())
        self.env.note_dependency(str(path))
        found = json.loads(path.read_text("utf-8"))
        if "tables" in found:
            shown = slice(int(self.arguments[1])) if self.arguments[1:] else slice(None)
            parts = [one for table in found["tables"][shown] for one in of_paper(table)]
        else:
            parts = of_claim(path.stem, found, is_open=len(self.arguments) > 1)
        return self.parse_text_to_nodes("\n\n".join(parts))


def of_paper(table: dict[str, Any]) -> tuple[str, str, str]:
    """Return title, table and note of a table of a paper."""
    rows = [[cell(one, table["digits"]) for one in row] for row in table["rows"]]
    return f"**{table['title']}**", markdown(table["columns"], rows), table["note"]


def of_claim(name: str, found: dict[str, Any], *, is_open: bool) -> list[str]:
    """Return what a benchmark found, with its rows folded away or open."""
    columns = list(dict.fromkeys(key for row in found["rows"] for key in row))
    rows = [[cell(row.get(key)) for key in columns] for row in found["rows"]]
    data = found["data"]
    data = data if isinstance(data, str) else "; ".join(map(": ".join, data.items()))
    packages = ", ".join(map(" ".join, found["packages"].items()))
    return [
        found["claim"],
        f":::{{dropdown}} {name}: {len(rows)} rows\n{':open:' * is_open}\n"
        f"`{found['command']}` "
        f"({found['commit']}) on {found['machine']}; {packages}. {data}. "
        f"n: {found['n']}. Seeds: {', '.join(map(str, found['seeds']))}.\n\n"
        f"{markdown(columns, rows)}\n:::",
    ]


def cell(entry: Any, digits: int | None = None) -> str:
    """Write an entry of a table."""
    if isinstance(entry, dict):
        entry = [entry["value"], entry["spread"]]
    if isinstance(entry, list):
        return " ± ".join(cell(one, digits) for one in entry if one is not None)
    if isinstance(entry, bool) or entry is None:
        return {True: "yes", False: "no", None: ""}[entry]
    number = isinstance(entry, float) and digits is not None
    return f"{entry:.{digits}f}" if number else str(entry).replace("|", "/")


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """Write a table."""
    ruler = ["---"] + ["---:"] * (len(columns) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ruler, *rows))


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
    app.add_directive("results", Results)
    app.connect("source-read", relink)
    app.connect("include-read", relink)
    visitors = (Formulas.visit, None)
    app.add_html_math_renderer("mathml", visitors, visitors)
