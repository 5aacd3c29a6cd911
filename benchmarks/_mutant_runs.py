"""Run the tests that reach a mutant, in a process of its own.

The tests are imported once; a process forked from there replaces the code of the
changed function, and runs them. A mutant of what runs at import, functions included,
gets a process that imports openset anew.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from _mutants import Mutant


class _Mutating(SourceFileLoader, MetaPathFinder):
    """Imports one module from a mutated tree."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path))
        self._mutant = mutant

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self.name:
            return None
        return spec_from_file_location(name, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._mutant.tree, self.path, "exec")


def _no_shrinking() -> None:
    """Let hypothesis stop at a failure, without looking for a shorter one."""
    from hypothesis import Phase, settings

    settings.register_profile("mutant", phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutant")


class _Selection:
    """A pytest plug-in: keeps some tests, quickest first; notes how long they take."""

    def __init__(
        self, wanted: dict[str, float] | None = None, mutant: Mutant | None = None
    ) -> None:
        self.wanted, self.mutant = wanted, mutant
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        _no_shrinking()
        if self.mutant is not None:  # before pytest's own importer of modules
            assert self.mutant.module not in sys.modules
            sys.meta_path.insert(0, _Mutating(self.mutant))

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted is not None:
            kept = [item for item in items if item.nodeid in self.wanted]
            items[:] = sorted(kept, key=lambda item: self.wanted[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        seconds = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = seconds


pytest_options: list[str] = []  # of pytest, from the command line


def _pytest(arguments: Sequence[str], plugin: _Selection | None = None) -> int:
    import pytest

    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *pytest_options]
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # preloaded plug-ins
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
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
        if self.at_import(mutant):  # any test may read what it left, a table, say
            return dict(self.seconds)
        found = self._found(mutant)
        return {name: self.seconds[name] for name in found if name in self.seconds}

    def at_import(self, mutant: Mutant) -> bool:
        """Whether a mutant's line runs when its module is imported."""
        return "" in self._found(mutant)

    def _found(self, mutant: Mutant) -> set[str]:
        return self.lines.get(str(mutant.path), {}).get(mutant.line, set())


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
    reached, left = [], []
    for mutant in listed:
        if found.at_import(mutant):  # a function, too: its new code would come too late
            left.append(mutant)
        elif found.of(mutant):
            reached.append(mutant)
        else:
            say(mutant, UNREACHED)
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


# --- mutants in a process that has imported openset -------------------------------


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

    def pytest_sessionstart(self) -> None:
        _no_shrinking()

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
