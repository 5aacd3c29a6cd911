"""Files are written by `_io`, under a temporary name; exceptions have a reason."""

import ast
from pathlib import Path

import openset

SRC = Path(openset.__file__).parent
WRITERS = {"write_text", "write_bytes", "savefig", "write_table", "to_csv", "touch"}
SAVERS = {"save", "savez", "savez_compressed"}  # of NumPy
SAFE = {"replacing", "replacing_folder", "write", "put"}

# Functions that write without _io's help, and why that is safe.
EXCEPTIONS = {
    ("_io.py", "write"): "opens the temporary file",
    ("_npz.py", "save"): "in _io.write, or into memory",
    ("extract/loop.py", "gather"): "into a temporary folder",
    ("extract/loop.py", "append"): "into a temporary folder",
    ("extract/loop.py", "put_header"): "into a temporary folder",
    ("outputs/files.py", "write"): "into a temporary folder",
    ("report/display.py", "_drawn"): "into memory",
    ("train/run.py", "_write_line"): "a line more of a log",
    ("stats/boards.py", "save"): "text of a table; written by _io.write",
}


def writes(call):
    """Whether a call writes a file."""
    function = call.func
    if isinstance(function, ast.Name) and function.id == "open":
        return _mode(call.args[1:2], call.keywords)
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr == "open":
        return _mode(call.args[:1], call.keywords)
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    return function.attr in WRITERS or (function.attr in SAVERS and owner == "np")


def _mode(arguments, keywords):
    modes = [*arguments, *(k.value for k in keywords if k.arg == "mode")]
    texts = [ast.unparse(one) for one in modes]
    return any(
        set(text) & set("wax+") for text in texts if text[:1] in "'\"" or "if" in text
    )


def is_safe(node):
    """Whether a statement or call is one of `_io`'s writers."""
    calls = [node] if isinstance(node, ast.Call) else []
    if isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items]
    names = [ast.unparse(one.func) for one in calls if isinstance(one, ast.Call)]
    return any(name in {f"_io.{safe}" for safe in SAFE} for name in names)


def found_in(path):
    """Return the functions of a module that write files outside of `_io`'s writers."""
    found = set()

    def walk(node, function, *, safe):
        if isinstance(node, ast.FunctionDef):
            function = node.name
        safe = safe or is_safe(node)
        if isinstance(node, ast.Call) and writes(node) and not safe:
            found.add((path.relative_to(SRC).as_posix(), function))
        for child in ast.iter_child_nodes(node):
            walk(child, function, safe=safe)

    walk(ast.parse(path.read_text("utf-8")), "", safe=False)
    return found


def test_no_file_is_written_in_place():
    found = set().union(*(found_in(path) for path in SRC.rglob("*.py")))
    assert found <= set(EXCEPTIONS)


def test_a_file_written_in_place_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SRC", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(
        "def good(path):\n"
        "    with _io.replacing(path) as one:\n"
        "        one.write_text('')\n"
        "    open(path, 'rb'), path.open()\n"
        "def bad(path):\n"
        "    path.write_text('')\n"
        "def worse(path):\n"
        "    open(path, mode='a')\n"
        "def worst(path):\n"
        "    np.save(path, [])\n"
    )
    assert found_in(path) == {("module.py", n) for n in ("bad", "worse", "worst")}
