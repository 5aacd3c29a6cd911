"""What MkDocs calls while it builds the site: see `mkdocs.yml`."""

import logging
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
for folder in (ROOT / "src", DOCS):  # the package of this checkout, and this one
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from mkdocs.structure.files import File, Files  # noqa: E402

from sitegen import api, figures, formulas, gallery, methods, outside  # noqa: E402

LOG = logging.getLogger("mkdocs.plugins.openset")
MAKERS = {
    "gallery": gallery.pages,
    "detectors": methods.detector_pages,
    "training": methods.training_pages,
    "api": api.pages,
}
_FIGURE = re.compile(r"^<!-- figure: ([\w-]+) -->$", re.MULTILINE)


def others() -> list[str]:
    """Return the pages of docs/ that the navigation does not name."""
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    there = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")))
    return [page for page in there if page not in named]


def on_config(config: Any) -> Any:
    """Put the generated pages into the navigation, and the public address into links."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    urls = project.get("urls", {})
    config.site_url, config.repo_url = urls.get("Documentation"), urls.get("Repository")
    config.repo_name = project["name"]
    made = {name: make() for name, make in MAKERS.items()}
    config.extra["made"] = made
    navs = {name: one.nav for name, one in made.items()} | {"others": others()}

    def filled(items: Any) -> Any:
        if isinstance(items, list):
            return [one for one in map(filled, items) if one]
        if isinstance(items, dict):
            full = {title: filled(value) for title, value in items.items()}
            return {title: value for title, value in full.items() if value}
        kind, _, name = items.partition(" ")
        return navs[name] if kind == "generated" else items

    config.nav = filled(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and those that lie outside docs/."""
    pages = {path: text for one in config.extra["made"].values()
             for path, text in one.files.items()}  # fmt: skip
    pages |= outside.pages() | {"demo/report.html": figures.report()}
    pages |= {f"assets/{path.name}": path.read_bytes()
              for path in sorted((DOCS / "sitegen" / "assets").iterdir())}  # fmt: skip
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links out of docs/ to their pages here, and draw the figures."""
    text = outside.relinked(markdown, page.file.src_uri)
    return _FIGURE.sub(lambda found: figures.html(found[1]), text)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Turn formulas into MathML, which browsers draw themselves."""
    return formulas.drawn(html, page.file.src_uri)


def on_post_build(config: Any) -> None:
    """Warn (strictly: fail) about public names without a place in the reference."""
    known = (Path(config.site_dir) / "objects.inv").read_bytes()
    for name in api.missing(known):
        LOG.warning("The API reference lacks %s", name)
