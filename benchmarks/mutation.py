"""Change one operator, number or statement at a time, and see if the tests notice.

    python benchmarks/mutation.py src/openset/metrics [--jobs 2] [--out mutation.json]
    python benchmarks/mutation.py src/openset/metrics/_auroc.py --tests tests/property
    python benchmarks/mutation.py src/openset/metrics --again mutation.json

Each mutant runs, in a process of its own, the tests that reach the changed line,
quickest first, until one fails. The tests are imported once; a process forked from
there replaces the code of the changed function, and runs them. A mutant of what runs at
import gets a process that imports openset anew. What survives is printed with its line.
A mutant that means the same as the original cannot be noticed:
`benchmarks/equivalent.json` (module -> mutant -> reason) lists those, and they do not
count. `--out` is written again and again while it runs; `--again` takes only the
mutants left in such a file.

Not mutated: text (messages, names), annotations, decorators, what is raised,
`strict=True` of zip, which only raises, and `copy=False`: a copy has the same numbers.
"""

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import inspect
import json
import os
import resource
import shlex
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = Path(__file__).with_name("equivalent.json")

# Tests of a package, besides its own doctests and tests/unit/<package>.
TESTS = {
    "metrics": [
        "tests/property/test_metrics.py",
        "tests/property/test_consistency.py",
        "tests/contract/test_metrics.py",
        "tests/unit/test_scores.py",
        "tests/unit/test_stats.py",
        "tests/unit/thresholds/test_operation.py",  # `evaluate` at a chosen threshold
    ],
    "thresholds": [
        "tests/property/test_thresholds.py",
        "tests/contract/test_objectives.py",
        "tests/unit/rejector",
    ],
    "stats": [
        "tests/unit/test_stats.py",
        "tests/unit/test_ranks.py",
        "tests/unit/test_leaderboard.py",
    ],
    "detectors": ["tests/contract/test_detectors.py"],
    "scores.py": ["tests/unit/test_scores.py"],
    "outputs.py": ["tests/unit/test_outputs.py"],
    "watch.py": ["tests/unit/test_watch.py"],
}

# --- mutants ------------------------------------------------------------------

_COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = [
    *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all")),
    *(("floor", "ceil"), ("left", "right"), ("log", "log1p"), ("exp", "expm1")),
    *(("logical_and", "logical_or"), ("zeros", "ones"), ("cumsum", "cumprod")),
]
_OTHER = dict(_PAIRS) | {b: a for a, b in _PAIRS}


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of one module."""

    path: Path
    line: int
    name: str
    """The function, and the code before and after, wherever its line moves to."""
    tree: ast.Module


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a source file."""
    tree = ast.parse(path.read_text("utf-8"))
    times: Counter[str] = Counter()
    for where, statement, place, around in _places(tree):
        for before, after, change in _changes(place):
            # A number alone says little: it is shown with what it is a part of.
            is_part = isinstance(place, ast.Constant) and around is not statement
            before = ast.unparse(around) if is_part else before  # noqa: PLW2901
            # The tree is copied with the change made; then the change is undone.
            with change:
                mutated = copy.deepcopy(tree)
                after = ast.unparse(around) if is_part else after  # noqa: PLW2901
            name = f"{where}: {before} -> {after}"
            times[name] += 1
            yield Mutant(
                path=path,
                line=getattr(place, "lineno", statement.lineno),
                name=name if times[name] == 1 else f"{name} ({times[name]})",
                tree=ast.fix_missing_locations(mutated),
            )


def _places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.AST, ast.AST]]:
    """Yield everything to be mutated: its function, its statement, it, its parent."""

    def walk(node: ast.AST, where: str, statement: Any, around: Any) -> Iterator[Any]:
        if isinstance(node, ast.stmt):
            statement = node
        if _is_text(node):
            if isinstance(node, ast.Raise):
                yield where, statement, node, around
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}".lstrip(".")
            inside: list[ast.AST] = list(node.body)
            if not isinstance(node, ast.ClassDef):
                inside += [x for x in node.args.defaults + node.args.kw_defaults if x]
        elif isinstance(node, ast.AnnAssign):
            inside = [node.value] if node.value else []
        else:
            if statement is not None:
                yield where, statement, node, around
            inside = list(ast.iter_child_nodes(node))
        if not isinstance(node, ast.UnaryOp | ast.Slice):  # -1 or 1: say little, too
            around = node
        for child in inside:
            yield from walk(child, where, statement, around)

    for top in tree.body:
        yield from walk(top, "", None, tree)


def _is_text(node: ast.AST) -> bool:
    """Whether it is there for readers (messages, imports), or for speed."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="msg" | "__all__" | "remedy" | "rule")]):
            return True
        case ast.Expr(value=ast.Constant(value=str())):  # a docstring
            return True
        case ast.Call(func=ast.Attribute(attr="must")):  # words of an error
            return True
        case (
            ast.keyword(arg="copy", value=ast.Constant(value=False))
            | ast.keyword(arg="strict")
        ):
            return True
    return False


Change = tuple[str, str, contextlib.AbstractContextManager[None]]


def _changes(node: ast.AST) -> Iterator[Change]:  # noqa: PLR0912  # one case a kind
    """Yield what can be changed at a node: before, after, and the change itself."""
    match node:
        case ast.Compare(ops=[op]):
            for other in _COMPARISONS.get(type(op), []):
                yield _with(node, "ops", [other()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _OPERATORS:
            yield _with(node, "op", _OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield _with(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Invert() | ast.Not(), operand=inner):
            if not isinstance(inner, ast.Constant):
                yield _instead(node, inner)
        case ast.Constant(value=bool(value)):
            yield _with(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield _with(node, "value", value + 1)
        case ast.Constant(value=float(value)):
            yield _with(node, "value", value + 1 if value + 1 != value else 1.0)
        case ast.Constant(value=str(value)) if value in _OTHER:
            yield _with(node, "value", _OTHER[value])
        case ast.Call(func=ast.Attribute(attr=name)) if name in _OTHER:
            yield _with(node.func, "attr", _OTHER[name], shown=node)
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER:
            yield _with(node.func, "id", _OTHER[name], shown=node)
        case ast.Raise() | ast.Break() | ast.Continue():
            yield _instead(node, ast.Pass())
        case ast.Expr(value=ast.Call()):
            yield _instead(node, ast.Pass())
    if isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(
        node.test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr
    ):
        test = node.test
        yield _with(node, "test", ast.UnaryOp(ast.Not(), test), shown=node, words=test)


def _with(
    node: Any,
    field: str,
    value: Any,
    *,
    shown: ast.AST | None = None,
    words: ast.AST | None = None,
) -> Change:
    shown = node if shown is None else shown
    old = getattr(node, field)

    def text() -> str:
        if words is not None:
            return ast.unparse(getattr(node, field))
        return ast.unparse(shown)

    before = text()
    setattr(node, field, value)
    after = text()
    setattr(node, field, old)

    @contextlib.contextmanager
    def change() -> Iterator[None]:
        setattr(node, field, value)
        try:
            yield
        finally:
            setattr(node, field, old)

    return before, after, change()


def _instead(node: ast.AST, other: ast.AST) -> Change:
    """Put another node in the place of one."""
    before, after = ast.unparse(node), ast.unparse(other)
    kind, fields = type(node), dict(vars(node))

    @contextlib.contextmanager
    def change() -> Iterator[None]:
        node.__class__ = type(other)  # type: ignore[assignment]
        node.__dict__ = dict(vars(other))
        ast.copy_location(node, ast.Pass(lineno=fields["lineno"], col_offset=0))
        try:
            yield
        finally:
            node.__class__ = kind  # type: ignore[assignment]
            node.__dict__ = fields

    return before.partition("\n")[0], after, change()


# --- running tests ------------------------------------------------------------


class _Mutating(SourceFileLoader, MetaPathFinder):
    """Imports one module from a mutated tree."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(_module(mutant.path), str(mutant.path))
        self._mutant = mutant

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self.name:
            return None
        return spec_from_file_location(name, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._mutant.tree, self.path, "exec")


def _module(path: Path) -> str:
    parts = path.resolve().relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


class _Selection:
    """A pytest plug-in: keeps some tests, quickest first; notes how long they take."""

    def __init__(
        self, wanted: dict[str, float] | None = None, mutant: Mutant | None = None
    ) -> None:
        self.wanted, self.mutant = wanted, mutant
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        if self.mutant is not None:  # before pytest's own importer of modules
            assert _module(self.mutant.path) not in sys.modules
            sys.meta_path.insert(0, _Mutating(self.mutant))

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted is not None:
            kept = [item for item in items if item.nodeid in self.wanted]
            items[:] = sorted(kept, key=lambda item: self.wanted[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        seconds = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = seconds


_OPTIONS: list[str] = []  # of pytest, from the command line


def _pytest(arguments: Sequence[str], plugin: _Selection | None = None) -> int:
    import pytest

    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *_OPTIONS]
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # preloaded plug-ins
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        plugins = [] if plugin is None else [plugin]
        return int(pytest.main([*quiet, *arguments], plugins=plugins))


BROKEN = 70  # the code of a process of ours that could not do its work


def _in_child(work: Callable[[], Any]) -> int:
    """Fork, work, and return the process's number; what `work` returns is its code."""
    pid = os.fork()
    if pid:
        return pid
    code = BROKEN
    try:
        code = int(work() or 0)
    except BaseException:  # of ours: pytest catches those of tests
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _done(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def preload(tests: Sequence[str]) -> None:
    """Import all that the tests import, besides openset and the tests themselves."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "modules"

        def work() -> None:
            _pytest(["--collect-only", *tests])
            listed.write_text("\n".join(sys.modules))

        _done(_in_child(work))
        names = listed.read_text().splitlines()
    for name in names:
        if name.partition(".")[0] not in {"openset", "tests", "conftest", "__main__"}:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    assert "openset" not in sys.modules


@dataclass(frozen=True)
class Reach:
    """Which tests reach which lines, and how long each test takes."""

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def of(self, mutant: Mutant) -> dict[str, float]:
        """Return the tests that reach a mutant's line, with their seconds."""
        found = self.lines.get(str(mutant.path), {}).get(mutant.line, set())
        if "" in found:  # run at import: any test may read what it left, a table, say
            return dict(self.seconds)
        return {name: self.seconds[name] for name in found if name in self.seconds}


def reach(paths: Sequence[Path], tests: Sequence[str]) -> Reach:
    """Run the tests once as they are."""
    with tempfile.TemporaryDirectory() as folder:
        data, note = Path(folder) / "coverage", Path(folder) / "seconds.json"

        def work() -> int:
            os.environ["COVERAGE_FILE"] = str(data)
            plugin = _Selection()
            # Folders: for the name of a module, coverage would import it first.
            modules = [f"--cov={folder}" for folder in {path.parent for path in paths}]
            options = ["--cov-context=test", "--cov-report=", "--cov-config=/dev/null"]
            code = _pytest([*modules, *options, *tests], plugin)
            note.write_text(json.dumps(plugin.seconds))
            return code

        if _done(_in_child(work)) != 0:
            print("The tests must pass without a mutant first.")
            raise SystemExit(2)
        from coverage import CoverageData

        measured = CoverageData(str(data))
        measured.read()
        lines = {
            str(path): {
                line: {context.partition("|")[0] for context in contexts}
                for line, contexts in measured.contexts_by_lineno(str(path)).items()
            }
            for path in paths
        }
        return Reach(lines, json.loads(note.read_text()))


KILLED, SURVIVED, UNREACHED = "killed", "survived", "not reached by a test"


def _limit_time(tests: dict[str, float]) -> None:
    limit = 20 + 5 * int(sum(tests.values()))  # seconds of the processor
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


def judge(mutant: Mutant, tests: dict[str, float]) -> int:
    """Start the tests of a mutant in a process of its own; return its number."""

    def work() -> int:
        _limit_time(tests)
        files = sorted({name.partition("::")[0] for name in tests})
        return _pytest(["-x", *files], _Selection(tests, mutant))

    return _in_child(work)


def run(
    listed: Sequence[Mutant],
    found: Reach,
    jobs: int,
    say: Callable[[Mutant, str], None],
) -> None:
    """Say what became of each mutant."""
    reached = []
    for mutant in listed:
        if found.of(mutant):
            reached.append(mutant)
        else:
            say(mutant, UNREACHED)
    left = []
    for mutant, fate in in_place(reached, found, jobs):
        if fate is None:
            left.append(mutant)
        else:
            say(mutant, fate)

    def start(mutant: Mutant) -> int:
        return judge(mutant, found.of(mutant))

    for mutant, code in _side_by_side(left, start, jobs):
        say(mutant, SURVIVED if code == 0 else KILLED)


def _side_by_side(
    listed: Sequence[Mutant], start: Callable[[Mutant], int], jobs: int
) -> Iterator[tuple[Mutant, int]]:
    """Start a process for each mutant, some at a time; yield their codes."""
    running: dict[int, Mutant] = {}

    def settle() -> tuple[Mutant, int]:
        pid, status = os.wait()
        return running.pop(pid), os.waitstatus_to_exitcode(status)

    for mutant in listed:
        while len(running) >= jobs:
            yield settle()
        running[start(mutant)] = mutant
    while running:
        yield settle()


# --- mutants in a process that has imported openset ------------------------------


def in_place(
    listed: Sequence[Mutant], found: Reach, jobs: int
) -> Iterator[tuple[Mutant, str | None]]:
    """Yield each mutant with its fate; None if it must be imported to be judged."""
    source, target = os.pipe()
    files = sorted({name.partition("::")[0] for name in found.seconds})

    def work() -> None:
        os.close(source)
        _pytest(["-s", *files], _InPlace(listed, found, jobs, target))

    pid = _in_child(work)
    os.close(target)
    told = set()
    with os.fdopen(source) as lines:
        for line in lines:
            i, code = map(int, line.split())
            told.add(i)
            fate = SURVIVED if code == 0 else KILLED
            yield listed[i], None if code == BROKEN else fate
    _done(pid)
    for i in sorted(set(range(len(listed))) - told):
        yield listed[i], None


class _InPlace:
    """A pytest plug-in: instead of running the tests, runs them for each mutant."""

    def __init__(
        self, listed: Sequence[Mutant], found: Reach, jobs: int, target: int
    ) -> None:
        self.listed, self.found, self.jobs, self.target = listed, found, jobs, target

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        paths = {one.path for one in self.listed}
        functions = _functions(paths)
        sources = {path: _compiled(path) for path in paths}
        place = {one: i for i, one in enumerate(self.listed)}
        gc.freeze()  # the processes share the memory of what is imported

        def start(mutant: Mutant) -> int:
            tests = self.found.of(mutant)
            chosen = [items[name] for name in sorted(tests, key=lambda n: tests[n])]

            def work() -> int:
                _limit_time(tests)
                new = compile(mutant.tree, str(mutant.path), "exec")
                own = functions[str(mutant.path)]
                if not _replace(sources[mutant.path], new, own):
                    return BROKEN
                session.config.pluginmanager.register(_Failing())
                for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                return 0

            return _in_child(work)

        for mutant, code in _side_by_side(self.listed, start, self.jobs):
            os.write(self.target, f"{place[mutant]} {code}\n".encode())
        return True


class _Failing:
    """A pytest plug-in: ends the process at the first failure."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os._exit(1)


def _compiled(path: Path) -> CodeType:
    return compile(path.read_text("utf-8"), str(path), "exec")


def _functions(paths: set[Path]) -> dict[str, dict[tuple[str, int], FunctionType]]:
    """Return the functions that some files define, by name and line."""
    found: dict[str, dict[tuple[str, int], FunctionType]] = {str(p): {} for p in paths}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in found:
            code = one.__code__
            found[code.co_filename][code.co_qualname, code.co_firstlineno] = one
    return found


def _replace(
    old: CodeType, new: CodeType, functions: dict[tuple[str, int], FunctionType]
) -> bool:
    """Give functions their new code; False if something else changed, too."""
    if old.co_flags & inspect.CO_OPTIMIZED:  # the code of a function
        if old == new:
            return True
        one = functions.get((old.co_qualname, old.co_firstlineno))
        if one is None:
            return False
        try:
            one.__code__ = new
        except ValueError:  # of other free variables
            return False
        return True
    parts = [
        [x for x in code.co_consts if isinstance(x, CodeType)] for code in (old, new)
    ]
    rest = [
        (code.co_code, code.co_names, [x for x in code.co_consts if x not in part])
        for code, part in zip((old, new), parts, strict=True)
    ]
    if rest[0] != rest[1] or len(parts[0]) != len(parts[1]):
        return False
    return all(_replace(a, b, functions) for a, b in zip(*parts, strict=True))


# --- the command --------------------------------------------------------------


def tests_of(paths: Sequence[Path]) -> list[str]:
    """Return the tests of the packages some files are of."""
    found = []
    for path in paths:
        package = path.resolve().relative_to(ROOT / "src" / "openset").parts[0]
        found += [f"src/openset/{package}", f"tests/unit/{package}"]
        found += TESTS.get(package, [])
    return [one for one in dict.fromkeys(found) if (ROOT / one).exists()]


@dataclass(frozen=True)
class Row:
    """What the tests noticed of the mutants of a module."""

    module: str
    mutants: int
    killed: int
    equivalent: int

    def __str__(self) -> str:
        share = self.killed / self.mutants
        return (
            f"{self.module:48} {self.mutants:8} {self.killed:7} {share:6.1%} "
            f"{self.equivalent:11}"
        )


def table(fates: dict[Mutant, str], known: Sequence[Mutant]) -> list[Row]:
    """Return a row per module that has judged mutants, and one for all of them."""
    rows = []
    for path in [*dict.fromkeys(one.path for one in fates), None]:
        mine = [fate for one, fate in fates.items() if path in {None, one.path}]
        rows.append(
            Row(
                module="all" if path is None else _module(path),
                mutants=len(mine),
                killed=mine.count(KILLED),
                equivalent=sum(path in {None, one.path} for one in known),
            )
        )
    return rows


def write(path: Path, fates: dict[Mutant, str], known: Sequence[Mutant]) -> None:
    """Write the table and the mutants that were not noticed."""
    left = [
        {
            "module": _module(one.path),
            "at": f"{one.path.relative_to(ROOT)}:{one.line}",
            "mutant": one.name,
            "fate": fate,
        }
        for one, fate in fates.items()
        if fate != KILLED
    ]
    rows = [asdict(row) for row in table(fates, known)]
    text = json.dumps({"modules": rows, "left": left}, indent=1) + "\n"
    new = path.with_suffix(".part")
    new.write_text(text, "utf-8")
    new.replace(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="+", type=Path, help="modules, or folders of them"
    )
    parser.add_argument("--tests", nargs="+", help="instead of those of the package")
    parser.add_argument(
        "--pytest", default="", help='its options: --pytest="-p no:benchmark"'
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, help="only every n-th mutant")
    parser.add_argument("--again", type=Path, help="only those left in this file")
    parser.add_argument("--out", type=Path, help="write what survived as JSON")
    args = parser.parse_args()
    args.paths = [
        path.resolve()
        for one in args.paths
        for path in (sorted(one.rglob("*.py")) if one.is_dir() else [one])
    ]
    if missing := [str(path) for path in args.paths if not path.is_file()]:
        parser.error(f"no such file: {', '.join(missing)}")
    return args


def main() -> None:
    """Mutate some modules and print a table of what the tests noticed."""
    args = _arguments()
    paths, out = args.paths, None if args.out is None else args.out.resolve()
    again = None
    if args.again is not None:
        left = json.loads(args.again.read_text("utf-8"))["left"]
        again = {(one["module"], one["mutant"]) for one in left}
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    os.environ["CI"] = "1"  # hypothesis draws the same examples every time
    _OPTIONS.extend(shlex.split(args.pytest))
    tests = args.tests or tests_of(paths)
    print("Tests:", *tests, flush=True)
    start = time.perf_counter()
    preload(tests)
    found = reach(paths, tests)
    explained = json.loads(EQUIVALENT.read_text("utf-8")) if EQUIVALENT.exists() else {}
    listed = [one for path in paths for one in mutants(path)]
    names = {(_module(one.path), one.name) for one in listed}
    for module in {_module(path) for path in paths} & set(explained):
        for name in explained[module]:
            if (module, name) not in names:
                print(f"{EQUIVALENT.name} explains what is no mutant: {module} {name}")
    if again is not None:
        listed = [one for one in listed if (_module(one.path), one.name) in again]
    listed = listed[:: args.every]
    known = [one for one in listed if one.name in explained.get(_module(one.path), {})]
    listed = [one for one in listed if one not in known]
    took = time.perf_counter() - start
    print(f"{len(listed)} mutants after {took:.0f} s", flush=True)
    fates: dict[Mutant, str] = {}
    written = start = time.perf_counter()

    def say(one: Mutant, fate: str) -> None:
        nonlocal written
        fates[one] = fate
        if fate != KILLED:
            ending = " (no test)" if fate == UNREACHED else ""
            at = f"{one.path.relative_to(ROOT)}:{one.line}"
            print(f"{at} {one.name}{ending}", flush=True)
        if out is not None and time.perf_counter() - written > 10:
            write(out, fates, known)  # it may be stopped before the end
            written = time.perf_counter()

    run(listed, found, args.jobs, say)
    took = time.perf_counter() - start
    print(
        f"\n{'module':48} {'mutants':>8} {'killed':>7} {'share':>6} {'equivalent':>11}"
    )
    if fates:
        print(*table(fates, known), sep="\n")
    print(f"{took / max(1, len(listed)):.1f} s a mutant, {args.jobs} at a time")
    if out is not None:
        write(out, fates, known)


if __name__ == "__main__":
    main()
