"""The gallery: ``examples/*.py``, run by the build, as pages and as notebooks."""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sitegen.api import Made

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# The order of the gallery; others follow.
ORDER = ["image_classifier", "intents", "table", "zero_shot"]
ORDER += ["study", "training", "monitoring", "own_detector"]


def examples() -> list[Path]:
    """Return the files of the examples, in the order of the gallery."""
    found = {path.stem: path for path in sorted(EXAMPLES.glob("*.py"))}
    return [found[name] for name in [*ORDER, *(n for n in found if n not in ORDER)]]


@functools.cache
def version() -> bytes:
    """Return a hash of everything an example runs on."""
    files = [*(ROOT / "src").rglob("*"), Path(__file__).with_name("notebook.py")]
    digest = hashlib.sha256()
    for path in sorted(
        path for path in files if path.suffix in {".py", ".css", ".js", ".j2"}
    ):
        digest.update(path.read_bytes())
    return digest.digest()


def notebook(path: Path) -> dict[str, Any]:
    """Return the notebook of an example; run it, unless nothing has changed since."""
    key = hashlib.sha256(version() + path.read_bytes()).hexdigest()[:16]
    kept = ROOT / "build" / "notebooks" / f"{path.stem}-{key}.json"
    if not kept.exists():
        made = run(path)
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob(f"{path.stem}-*.json"):
            old.unlink()
        kept.write_text(json.dumps(made), encoding="utf-8")
    return json.loads(kept.read_text("utf-8"))


def run(path: Path) -> dict[str, Any]:
    """Run an example in a process of its own."""
    script = Path(__file__).with_name("notebook.py")
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(script), str(path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        msg = f"gallery: {path.name} must run, got\n{done.stderr}"
        raise RuntimeError(msg)
    return json.loads(done.stdout)


def page(notebook: dict[str, Any], path: Path) -> str:
    """Return a notebook as a page of the site."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(_text(output["text"]))
            elif "text/html" in output["data"]:
                html = re.sub(r"\s*\n\s*", " ", output["data"]["text/html"])
                parts.append(f'<div class="notebook-output">{html}</div>')
            elif "text/markdown" in output["data"]:
                parts.append(output["data"]["text/markdown"].strip())
            else:
                parts.append(_text(output["data"]["text/plain"]))
    title, _, rest = parts[0].partition("\n")
    links = f"[Notebook]({path.stem}.ipynb){{ download }} · [Python file]({path.name}){{ download }}"
    return "\n\n".join([title, links, rest.strip(), *parts[1:], ""])


def _text(text: str) -> str:
    return f"```{{.text .notebook-output}}\n{text.rstrip()}\n```"


def pages() -> Made:
    """Return a page, a notebook and the source of every example."""
    made, rows = Made(), []
    paths = examples()
    with ThreadPoolExecutor(2) as pool:
        notebooks = list(pool.map(notebook, paths))
    for path, made_of in zip(paths, notebooks, strict=True):
        made.files[f"gallery/{path.stem}.md"] = text = page(made_of, path)
        made.files[f"gallery/{path.stem}.ipynb"] = json.dumps(made_of, indent=1) + "\n"
        made.files[f"gallery/{path.name}"] = path.read_text("utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        said = made_of["cells"][0]["source"].partition("\n")[2].strip()
        said = " ".join(said.partition("\n\n")[0].split())
        made.nav.append({title: f"gallery/{path.stem}.md"})
        rows.append(f"| [{title}]({path.stem}.md) | {said} |")
    made.files["gallery/index.md"] = "\n".join([
        "# Gallery",
        "",
        "Short notebooks on small data. The build of this site runs them, so their outputs "
        "are those of this version. Download one, or run its file in `examples/`.",
        "",
        "| notebook | what it shows |",
        "|---|---|",
        *rows,
        "",
    ])  # fmt: skip
    made.nav.insert(0, "gallery/index.md")
    return made
