"""What the documentation shows exists and runs: commands, names, examples, links."""

import ast
import importlib.util
import inspect
import re
import shlex
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import openset
from openset import bench, detectors
from openset.cli import app
from openset.testing import example_outputs
from tests.unit.bench import made_outputs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *DOCS.rglob("*.md"),
    ]
)
if not DOCS.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.?\d*")
# Folders of pages that the build of the site makes: it checks links to them, strictly.
GENERATED = {"api", "demo", "detectors", "gallery", "training"}
GROUPS = {f"openset.{name}" for name in ("detectors", "methods", "metrics", "datasets")}
FILES = {"md", "json", "csv", "npz", "npy", "yaml", "html", "py", "xz"}
PACKAGES = {
    name for name in openset.__all__ if inspect.ismodule(getattr(openset, name))
}
# Classes that pages call by their bare name.
HOMES = {
    "Rejector": "openset",
    "Outputs": "openset",
    "Scores": "openset",
    "Results": "openset.results",
    "Threshold": "openset.thresholds",
    "Fitted": "openset.detectors",
    "Trained": "openset.train",
    "Protocol": "openset.protocols",
    "Draws": "openset.protocols",
}

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: str(page.relative_to(ROOT))
)


def text_of(page):
    return page.read_text("utf-8")


def blocks(page, *languages):
    """Return the code blocks in these languages."""
    return [code for kind, code in BLOCK.findall(text_of(page)) if kind in languages]


def spans(page):
    """Return what stands between single backquotes in the running text."""
    found = re.findall(r"`([^`]+)`", BLOCK.sub("", text_of(page)))
    return [" ".join(span.split()) for span in found]


def command_of(line):
    """Return the command of a line, the options it has, and the words after it."""
    words = shlex.split(line, comments=True)
    words = words[words.index("openset") + 1 :]
    command = get_command(app)
    options = {"-h", "--help"}
    while True:
        options |= {o for p in command.params for o in [*p.opts, *p.secondary_opts]}
        if not words or words[0] not in getattr(command, "commands", {}):
            return command, options, words
        command, words = command.commands[words[0]], words[1:]


@every_page
def test_commands_in_blocks_can_be_typed(page):
    code = "\n".join(blocks(page, "sh", "")).replace("\\\n", " ")
    for line in re.findall(r"^ *((?:openset|torchrun) .*)$", code, re.MULTILINE):
        command, _, rest = command_of(line)
        assert command is not get_command(app), line
        if not hasattr(command, "commands"):
            command.make_context("openset", rest)  # raises what a user would read


@every_page
def test_commands_in_sentences_have_options_that_exist(page):
    for span in spans(page):
        if re.match(r"openset [a-z-]", span):
            line = re.sub(r"[\[\]…]", " ", span)  # optional, or left out
            command, options, rest = command_of(line)
            said = {w.partition("=")[0] for w in rest if re.match(r"--?[a-z]", w)}
            assert said <= options, span
            assert said or command is not get_command(app), span


def resolve(name):
    """Return what a dotted name stands for; modules on its way are imported."""
    words = name.split(".")
    value = importlib.import_module(words[0])
    for i, word in enumerate(words[1:], start=2):
        if not hasattr(value, word):
            importlib.import_module(".".join(words[:i]))
        value = getattr(value, word)
    return value


def whole(name):
    """Return a name from `openset` on, or "" for what is none of ours."""
    first, _, rest = name.partition(".")
    if first in PACKAGES:
        return f"openset.{name}"
    if first in HOMES:
        return f"{HOMES[first]}.{name}"
    return {"ops": f"openset.{rest}", "openset": name}.get(first, "")


@every_page
@pytest.mark.usefixtures("import_torchvision")  # torchmetrics imports it
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_names_in_sentences_exist(page):
    for span in spans(page):
        found = r"(?<![\w./\"'-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
        for name in re.findall(found, span):
            if name.rpartition(".")[2] not in FILES and name not in GROUPS:
                resolve(whole(name) or "openset")


def dotted(node):
    """Return ``a.b.c`` of an expression that is just that, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return ""


@every_page
@pytest.mark.usefixtures("import_torchvision")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_names_and_keywords_in_code_exist(page):
    """Also where an example cannot be run: it trains a network, say."""
    ours = {}
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("openset"):
                for alias in node.names:
                    ours[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == "openset":
                        ours[alias.asname or alias.name] = alias.name
        for name in ours.values():
            resolve(name)
        for node in ast.walk(ast.parse(code)):
            first, _, rest = dotted(node).partition(".")
            if first in ours:
                resolve(f"{ours[first]}.{rest}".removesuffix("."))
            if isinstance(node, ast.Call):
                first, _, rest = dotted(node.func).partition(".")
                starred = any(isinstance(one, ast.Starred) for one in node.args)
                if first in ours and not starred:
                    called = resolve(f"{ours[first]}.{rest}".removesuffix("."))
                    keywords = {k.arg: None for k in node.keywords if k.arg}
                    inspect.signature(called).bind_partial(*node.args, **keywords)


STUDY = """
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, repeats: 2}]
models: [{kind: logistic}]
detectors: [msp, energy]
"""


def made(n, seed, *, unknown=0.0):
    """Return outputs of which some labels are wrong, so that no metric is perfect."""
    outputs = example_outputs(n, seed=seed, unknown=unknown)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(outputs.labels)
    return replace(
        outputs, labels=np.where(rng.random(n) < 0.2, labels, outputs.labels)
    )


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Return a folder with the files that examples read."""
    folder = tmp_path_factory.mktemp("pages")
    train, test = made(300, 0), made(200, 1, unknown=0.5)
    train.save(folder / "train.npz")
    made(200, 2).save(folder / "val.npz")
    for name in ("test.npz", "new.npz", "test"):
        test.save(folder / name)
    kinds = np.array(["near", "far"])[np.arange(80) % 2]
    surrogate = replace(made(80, 3), labels=np.full(80, -1), groups=kinds)
    surrogate.save(folder / "surrogate.npz")
    for name in ("msp", "postmax"):
        detectors.make(name).fit(train).score(test).save(folder / f"{name}.npz")
        for seed in range(3):
            scores = detectors.make(name).fit(train).score(made(200, seed, unknown=0.5))
            scores.save(folder / "runs" / f"{name}_seed{seed}.csv")
    for name, part in openset.demo()._asdict().items():
        part.save(folder / "demo-output" / f"{name}.npz")  # as `openset demo` does
    made_outputs.made(folder / "outputs", bench.named.load("mnist-small"))
    (folder / "study.yaml").write_text(STUDY)
    bench.run(folder / "study.yaml", folder / "runs" / "digits", backend="sequential")
    return folder


RUN = ["bench", "checks/index", "coming-from", "detectors", "methods", "metrics"]
RUN += ["named-benchmarks", "operating", "protocols", "report", "selective", "training"]
RUN += [f"concepts/{name}" for name in ("knownness", "openauc")]
RUN += [f"howto/{name}" for name in ("compare", "foreign-scores", "no-unknowns")]
RUN += [f"howto/{name}" for name in ("outputs", "sign", "threshold")]
RUN += [f"start/{name}" for name in ("first-rejector", "research", "tables", "text")]
# Pages whose code other tests run, with the server or the package they are about.
ELSEWHERE = {
    "README.md": "tests/unit/cli/test_demo.py",
    "docs/integrations.md": "tests/unit/integrations/test_documentation.py",
    "docs/plugins.md": "tests/guests",
    "docs/serving.md": "tests/unit/serve/test_v2.py",
}


def test_the_code_of_every_page_is_run():
    coded = {str(p.relative_to(ROOT)) for p in PAGES if blocks(p, "python")}
    assert coded == {f"docs/{name}.md" for name in RUN} | set(ELSEWHERE)


@pytest.mark.parametrize("name", RUN)
def test_examples_run(name, material, tmp_path, monkeypatch, capsys):
    page = DOCS / f"{name}.md"
    monkeypatch.chdir(shutil.copytree(material, tmp_path / "here"))
    scores = openset.Scores.load("msp.npz")
    names = {
        "labels": scores.labels,
        "argmax_of_logits": scores.predicted,
        "knownness": scores.known,
        "scores": scores,
        "draws": openset.protocols.holdout(10, n_known=6, n_unknown=4, repeats=2),
    }
    if name == "methods":
        torch = pytest.importorskip("torch", reason="an extra")
        names |= {"images": torch.rand(8, 3, 32, 32), "labels": torch.arange(8) % 6}
    code = blocks(page, "python")
    assert code
    for block in code:
        if "= ..." not in block:  # something is left to the reader
            exec(compile(block, str(page), "exec"), names)  # noqa: S102  # our own page
    printed = capsys.readouterr().out.splitlines()
    for shown in blocks(page, "output"):
        n = len(shown.splitlines())
        parts = ["\n".join(printed[i : i + n]) + "\n" for i in range(len(printed))]
        alike = [
            part for part in parts if NUMBER.sub("", part) == NUMBER.sub("", shown)
        ]
        assert alike, shown
        # The last digits depend on the machine.
        numbers = [float(number) for number in NUMBER.findall(shown)]
        found = [float(number) for number in NUMBER.findall(alike[0])]
        assert found == pytest.approx(numbers, rel=0.05)


@every_page
def test_studies_are_read(page, tmp_path):
    for code in blocks(page, "yaml"):
        if "detectors:" in code and "margin" not in code:  # a guest, tests/guests
            (tmp_path / "study.yaml").write_text(code, "utf-8")
            bench.read(tmp_path / "study.yaml")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=str)
def test_example_studies_are_read(path):
    bench.read(path)


def anchors(page):
    """Return the names of a page's headings, as links write them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", text_of(page)), re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
    return {title.strip().replace(" ", "-") for title in kept}


@every_page
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if re.match(r"https?:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if target.is_relative_to(DOCS) and not target.exists():
            assert target.relative_to(DOCS).parts[0] in GENERATED, link
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_number_of_detectors_is_right():
    # Tests before this one may have registered detectors of their own.
    listed = [detectors.find(name) for name in detectors.names()]
    number = sum(one.__module__.startswith("openset.detectors.") for one in listed)
    assert f"{number} published detectors" in text_of(ROOT / "README.md")
    assert f"[{number} detectors]" in text_of(DOCS / "index.md")
    assert f"| post-hoc methods | {number} |" in text_of(DOCS / "peers.md")


def test_the_picture_of_the_explorer_is_new():
    pytest.importorskip("PIL", reason="an extra")
    path = DOCS / "sitegen" / "screenshot.py"
    spec = importlib.util.spec_from_file_location("screenshot", path)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    assert module.taken_of() == module.fingerprint(), "run: make docs"


def test_contributing_shows_the_layers_that_are_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c["name"] == "data flows one way"]
    assert blocks(ROOT / "CONTRIBUTING.md", "")[-1].splitlines() == layers


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for page in PAGES:
        code = "\n".join([*blocks(page, "sh"), *spans(page)])
        said = set(re.findall(r"^make ([a-z]+)", code, re.MULTILINE))
        assert said <= targets, page.name
