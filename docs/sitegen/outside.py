"""Pages of the site whose files lie outside docs/."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# File of the repository -> page of the site.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
# Files that pages link to, shown as they are.
FILES = {
    name: name
    for path in sorted((ROOT / "examples").rglob("*"))
    if path.is_file() and path.suffix in {".yaml", "", ".dockerignore"}
    for name in [path.relative_to(ROOT).as_posix()]
} | {
    name: name
    for one in ("choosing", "detectors_compared")
    for name in [f"benchmarks/results/{one}.csv"]
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def pages() -> dict[str, str]:
    """Return page -> text, with links as seen from docs/."""
    pages = {
        page: _linked((ROOT / path).read_text("utf-8"), posixpath.dirname(path), "docs")
        for path, page in PAGES.items()
    }
    return pages | {to: (ROOT / path).read_text("utf-8") for path, to in FILES.items()}


def relinked(markdown: str, page: str) -> str:
    """Lead links from a page of docs/ to files outside to their pages here."""
    folder = posixpath.join("docs", posixpath.dirname(page))
    return _linked(markdown, folder, folder)


def _linked(markdown: str, written_in: str, shown_in: str) -> str:
    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(written_in, found[2]))
        target = (
            f"docs/{(PAGES | FILES)[target]}" if target in PAGES | FILES else target
        )
        target = posixpath.relpath(target, shown_in)
        return f"{found[1]}{target}{found[3] or ''}{found[4]}"

    return _LINK.sub(link, markdown)
