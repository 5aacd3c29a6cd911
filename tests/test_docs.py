"""What the documentation shows works: links, code, commands."""

import re
import shlex
from pathlib import Path

import pytest
import typer

import openset
from openset.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if (ROOT / "docs").exists()
    else []
)
BLOCK = re.compile(r"^ *```[^\n]*\n.*?^ *```", re.DOTALL | re.MULTILINE)
ELSEWHERE = {"plugins"}  # tests/guests runs this page


def blocks(page, language):
    """Return the blocks of a page in a language."""
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def commands():
    """Return the words of every `openset ...` in a block for the shell."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("openset "):
                    words = shlex.split(line.split(" || ")[0], comments=True)
                    yield pytest.param(words[1:], id=f"{page.stem}: {line[:60]}")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what `openset demo` writes."""
    folder = tmp_path_factory.mktemp("pages")
    parts = openset.demo()
    for name, part in parts._asdict().items():
        (folder / "demo-output").mkdir(exist_ok=True)
        part.save(folder / "demo-output" / f"{name}.npz")
    fitted = openset.detectors.PostMax().fit(parts.train)
    pair = {"known": parts.validation, "surrogate": parts.surrogate}
    rejector = openset.Rejector.calibrate(fitted, train=parts.train, **pair)
    rejector.save(folder / "demo-output/rejector")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text("utf-8"))):
        path, _, _ = link.partition("#")  # Sphinx checks what is behind the #
        if path and not re.match(r"\w+:|api/", path):  # made by the build
            assert (page.parent / path).exists(), link


@pytest.mark.usefixtures("import_torchvision")  # torchmetrics imports it
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if blocks(p, "python") and p.stem not in ELSEWHERE],
    ids=lambda p: p.name,
)
def test_the_code_of_a_page_runs(page, place, monkeypatch):
    monkeypatch.chdir(place)
    names = {}
    for block in blocks(page, "python"):
        if "hf:clip-folder" in block:
            from tests.clip import save_small  # noqa: PLC0415  # needs transformers

            save_small("clip", place / "clip-folder")
        if not block.startswith("# not run here"):
            exec(compile(block, str(page), "exec"), names)  # noqa: S102  # our own


@pytest.mark.parametrize("words", list(commands()))
def test_commands_and_options_exist(words):
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert used <= options, used - options


def test_items_of_papers_exist():
    names = {item.name for item in openset.reproduce.items()}
    for page in PAGES:
        named = re.findall(r"openset reproduce ([a-z][\w-]+)", page.read_text("utf-8"))
        assert set(named) <= names, page
