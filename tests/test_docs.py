"""What the documentation shows works: links, code, commands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if (ROOT / "docs").exists()
    else []
)
BLOCK = re.compile(r"^ *```[^\n]*\n.*?^ *```", re.DOTALL | re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)


@every_page
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text("utf-8"))):
        path, _, _ = link.partition("#")  # Sphinx checks what is behind the #
        if path and not re.match(r"\w+:", path):
            assert (page.parent / path).exists(), link
