"""The API reference: a page for every public module, with every public name."""

import ast
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Made:
    """Generated pages: path -> text, and their place in the navigation."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    nav: list[Any] = field(default_factory=list)


def modules() -> dict[str, list[str]]:
    """Return public module -> its public names.

    A module is public if no part of its name starts with an underscore, and it lists
    its names in ``__all__`` or is itself listed there by the package `openset`.
    """
    found = {}
    listed = _all(SOURCE / "openset" / "__init__.py") or []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if any(part.startswith("_") for part in parts) or "cli" in parts:
            continue
        names = _all(path)
        if names is None and len(parts) == 2 and parts[1] in listed:
            names = _defined(path)
        if names:
            found[".".join(parts)] = names
    return found


def _all(path: Path) -> list[str] | None:
    for node in ast.parse(path.read_text("utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and getattr(node.targets[0], "id", "") == "__all__"
        ):
            return list(ast.literal_eval(node.value))
    return None


def _defined(path: Path) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    body = ast.parse(path.read_text("utf-8")).body
    return [n.name for n in body if isinstance(n, kinds) and not n.name.startswith("_")]


def _is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def members(module: str, names: list[str]) -> list[str]:
    """Return the names that are no modules: those have pages of their own."""
    return [
        n for n in names if not _is_module(f"{module}.{n}") and not n.startswith("__")
    ]


def pages() -> Made:
    """Return a page per module and an index of all of them."""
    made, rows = Made(), []
    for module, names in modules().items():
        mine = members(module, names)
        lines = [f"# {module}", "", f"::: {module}", "    options:",
                 "      show_root_heading: false", "      show_root_toc_entry: false",
                 f"      members: {mine!r}" if mine else "      members: false"]  # fmt: skip
        path = f"api/{module}.md"
        made.files[path] = "\n".join(lines) + "\n"
        made.nav.append({module.removeprefix("openset.") or "openset": path})
        text = SOURCE.joinpath(*module.split(".")) / "__init__.py"
        text = (
            text
            if text.exists()
            else SOURCE.joinpath(*module.split(".")).with_suffix(".py")
        )
        said = (ast.get_docstring(ast.parse(text.read_text("utf-8"))) or "").partition(
            "\n"
        )[0]
        rows.append(f"| [`{module}`]({module}.md) | {said} | {len(mine)} |")
    table = "\n".join(["| module | what it is for | names |", "|---|---|---:|", *rows])
    made.files["api/index.md"] = (
        "# API reference\n\nEvery public name, with its parameters and an example that the "
        "tests run. Names with an underscore in front are not public and may change at any "
        f"time.\n\n{table}\n"
    )
    made.nav.insert(0, "api/index.md")
    return made


def missing(inventory: bytes) -> list[str]:
    """Return the public names that an inventory of the site (objects.inv) lacks."""
    packed = inventory.split(b"\n", 4)[4]
    there = {
        line.split(" ", 1)[0] for line in zlib.decompress(packed).decode().splitlines()
    }
    wanted = [f"{module}.{name}" for module, names in modules().items()
              for name in members(module, names)]  # fmt: skip
    return [name for name in wanted if name not in there]
