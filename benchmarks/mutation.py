"""Change one operator, number or statement at a time, and see if the tests notice.

    python benchmarks/mutation.py src/openset/metrics [--jobs 2] [--out mutation.json]
    python benchmarks/mutation.py src/openset/metrics/_auroc.py --tests tests/property
    python benchmarks/mutation.py src/openset/metrics --again mutation.json

Each mutant runs the tests that reach the changed line, quickest first, until one fails.
What survives is printed with its line. A mutant that means the same as the original
cannot be noticed: `benchmarks/equivalent.json` (module -> mutant -> reason) lists
those, and they do not count. `--out` is written again and again while it runs;
`--again` takes only the mutants left in such a file.

`_mutants.py` makes the mutants, `_mutant_runs.py` runs the tests.
"""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from _mutant_runs import KILLED, UNREACHED, preload, pytest_options, reach, run
from _mutants import ROOT, Mutant, module_of, mutants

EQUIVALENT = Path(__file__).with_name("equivalent.json")

# Tests of a package, besides its own doctests and tests/unit/<package>.
TESTS = {
    "metrics": [
        "tests/property/test_metrics.py",
        "tests/property/test_consistency.py",
        "tests/property/test_sketch.py",
        "tests/contract/test_metrics.py",
        "tests/unit/test_scores.py",
        "tests/stats",
        "tests/unit/thresholds/test_operation.py",  # `evaluate` at a chosen threshold
    ],
    "thresholds": [
        "tests/property/test_thresholds.py",
        "tests/contract/test_objectives.py",
        "tests/rejector",
    ],
    "stats": [
        "tests/stats",
    ],
    "detectors": ["tests/contract/test_detectors.py"],
    "scores": ["tests/unit/test_scores.py", "tests/unit/test_sample_ids.py"],
    "outputs": ["tests/unit/test_outputs.py", "tests/unit/test_invalid_samples.py"],
    "watch": ["tests/watch"],
}


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
                module="all" if path is None else module_of(path),
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
            "module": one.module,
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
    pytest_options.extend(shlex.split(args.pytest))
    tests = args.tests or tests_of(paths)
    print("Tests:", *tests, flush=True)
    start = time.perf_counter()
    preload(tests)
    found = reach(paths, tests)
    explained = json.loads(EQUIVALENT.read_text("utf-8")) if EQUIVALENT.exists() else {}
    listed = [one for path in paths for one in mutants(path)]
    names = {(one.module, one.name) for one in listed}
    for module in {module_of(path) for path in paths} & set(explained):
        for name in explained[module]:
            if (module, name) not in names:
                print(f"{EQUIVALENT.name} explains what is no mutant: {module} {name}")
    if again is not None:
        listed = [one for one in listed if (one.module, one.name) in again]
    listed = listed[:: args.every]
    known = [one for one in listed if one.name in explained.get(one.module, {})]
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
