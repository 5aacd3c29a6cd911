"""`openset bench`."""

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset import _check, _io
from openset.cli.options import Backend, Detectors, Out, Root, made, need, refuse
from openset.cli.terminal import ERR, OUT, number, say, table

NAMES = ("protocol", "repeat", "model", "method", "detector", "seed")
AT_ONCE = 6  # columns of a named benchmark that fit into a narrow terminal


def command(
    study: Annotated[str | None, typer.Argument(metavar="STUDY")] = None,
    out: Out = None,
    outputs: Path | None = None,
    detector: Detectors = None,
    partial: Annotated[bool, typer.Option("--partial")] = False,
    root: Root = None,
    jobs: int = -1,
    backend: Backend = "loky",
    shard: Annotated[str, typer.Option(metavar="I/N")] = "1/1",
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    listed: Annotated[bool, typer.Option("--list")] = False,
) -> None:
    """Run a study, or score outputs of your network on a named benchmark.

    A study runs every combination of the protocols, models, detectors and seeds that
    its file names; each combination is a cell. The same command continues a study:
    finished cells are not repeated. A named benchmark needs --outputs; without it, its
    definition is shown.

        openset bench study.yaml --out runs/study --dry-run
        openset bench study.yaml --out runs/study
        openset bench study.yaml --out runs/study --backend ray
        openset bench study.yaml --out runs/study --shard 3/8
        openset bench --list
        openset bench openood:cifar10
        openset bench mnist-small --outputs outputs/ --out runs/mnist -d msp -d knn

    Parameters
    ----------
    study
        Study file (YAML), or the name of a benchmark, such as openood:cifar10.
    out
        Folder for the results of a study; a run that is already there is continued. For
        a benchmark: folder for its table.
    outputs
        For a benchmark: folder with the outputs of your network.
    detector
        For a benchmark: a detector to score, such as knn:k=20; may be repeated
        (default: those recommended for these outputs).
    partial
        For a benchmark: skip data sets whose outputs are missing (default: stop with an
        error).
    shard
        Run only part I of N, e.g. one task of a job array (3/8). The same command
        without --shard then runs what is left and shows the results.
    dry_run
        Print the plan, then exit.
    listed
        List the named benchmarks, then exit.
    """
    bench = openset.bench
    if listed:
        table(map(_summary, bench.named.names()), "Benchmarks")
        say("One of them, and the outputs it needs: openset bench NAME", style="dim")
        return
    study = need(study, "STUDY must be given: a file, or one of openset bench --list")
    path = Path(study)
    if not path.is_file() and not path.suffix:
        _check.one_of("openset", "STUDY", study, [*bench.named.names(), "a study file"])
        refuse(dry_run or shard != "1/1", "--dry-run and --shard are for a study")
        _named(study, outputs, out, detector, partial=partial)
        return
    of_benchmarks = outputs or detector or partial
    refuse(of_benchmarks, "--outputs, -d and --partial are for a named benchmark")
    if dry_run:
        plan = bench.plan(bench.read(path))
        finished = openset.runs.finished(out) if out else set()
        keys = ("protocol", "model", "method")
        cells = Counter(tuple(task.key[k] for k in keys) for task in plan)
        rows = (dict(zip(keys, of, strict=True)) | {"cells": cells[of]} for of in cells)
        table(rows, "Plan")
        n_done = len({task.id for task in plan} & finished)
        n_networks = len({task.network.id for task in plan})
        say(f"{len(plan)} cells on {n_networks} networks, {n_done} finished")
        return
    out = need(out, "--out must be given: the run folder of the study")
    refuse(not re.fullmatch(r"\d+/\d+", shard), "--shard must be I/N, such as 3/8")
    number, n = map(int, shard.split("/"))
    how: dict[str, Any] = {"backend": backend, "jobs": jobs, "root": root}
    done = bench.run(path, out, shard=(number, n), **how)
    if n == 1:
        _leaderboards(out, [row.key for row in bench.read(path).rows()])
    say(done)
    if n > 1:
        say("When all shards are done, run the command without --shard.")
    for one in done.failed:
        key = ", ".join(f"{k} {one['key'][k]}" for k in NAMES if one["key"][k] != "")
        say(f"failed: {key}: {one['error']}", style="red", to=ERR)
    if done.failed:
        raise typer.Exit(1)


def _leaderboards(run: Path, metrics: list[str]) -> None:
    """Show the headline with a column per protocol, and all metrics as columns."""
    results = openset.runs.results(run)
    if len(results):
        OUT.print(openset.stats.leaderboard(results, metrics[0]))
        if len(every := list(dict.fromkeys(metrics))) > 1:
            OUT.print(openset.stats.leaderboard(results, every))


def _summary(name: str) -> dict[str, Any]:
    one = openset.bench.named.load(name)
    groups = [
        f"{group}: {', '.join(about.data)}"
        for group, about in one.groups.items()
        if about.role == "unknown"
    ]
    return {"name": name, "known": one.known, "unknown": "; ".join(groups)}


def _named(
    name: str, outputs: Path | None, out: Path | None, detectors: Any, **how: bool
) -> None:
    """Describe a benchmark, or score outputs on it."""
    named = openset.bench.named
    one = named.load(name)
    if outputs is None:
        refuse(out or detectors, f"--outputs must be given, to score {name}")
        _describe(name, one)
        return
    out = need(out, "--out must be given: the folder for the table")
    # Detectors are fitted on the training outputs of the folder.
    recipes = made(detectors, train=outputs) if detectors else None
    found = named.evaluate(one, outputs, recipes, **how)
    found.results.save(out / "results.csv")
    _io.put(out / "table.md", found.to_markdown())
    say(found.title())
    heads = [column.name for column in found.columns()]
    for metric in one.metrics(shown=True):
        for start in range(0, len(heads), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            rows = (
                {metric.short: name}
                | dict(zip(heads[some], map(number, cells[some]), strict=True))
                for name, *cells in found.rows(metric.key)
                if any(cells[some])
            )
            table(rows)
    for note in found.notes():
        say(note)
    say(f"wrote {out / 'results.csv'} and {out / 'table.md'}")


def _describe(benchmark: str, one: Any) -> None:
    """Print a definition, and the files of outputs it needs."""
    files = {"train.npz": "training samples, for detectors that are fitted"}
    files["known.npz"] = f"test samples of {one.known}"
    for name, group in one.groups.items():
        is_known = ", known classes (full spectrum)" * (group.role == "shifted")
        for data, what in group.data.items():
            files[f"{name}/{data}.npz"] = what + is_known
    rows = ({"file of outputs": name, "what it is": files[name]} for name in files)
    table(rows, one.title)
    say(f"Metrics: {'; '.join(metric.short for metric in one.metrics())}")
    for key in ("conventions", "reference", "source", "status", "published_source"):
        say(f"{key.replace('_', ' ').capitalize()}: {getattr(one, key).strip()}")
    for data, found in one.lists().items():
        say(f"Images of {data}: {found.n_images} of {found.of}. "
            f"openset extract NETWORK FOLDER --list {benchmark}/{data}")  # fmt: skip
    say(f"Score outputs: openset bench {benchmark} --outputs FOLDER --out DIR")
