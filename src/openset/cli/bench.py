"""`openset bench`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from openset import _check, runs, stats
from openset.cli import _named_benchmarks
from openset.cli._console import ERRORS, OUT
from openset.cli._errors_in_options import LogTo, Root, Workers, naming, need_root
from openset.cli._lists import plain_table
from openset.results import Results

EPILOG = """[bold]Examples[/bold]

openset bench study.yaml --out runs/study --dry-run

openset bench study.yaml --out runs/study

openset bench study.yaml --out runs/study --backend ray \\
    --address 10.0.0.1:6379

openset bench study.yaml --out runs/study --shard 3/8

openset bench --list

openset bench openood:cifar10

openset bench mnist-small --outputs outputs/ --out runs/mnist -d msp -d knn

Run the same command again to continue a study: finished cells are not repeated. \
docs/bench.md explains the study file; openset report runs/study writes a report. \
docs/named-benchmarks.md explains named benchmarks."""

_SHOWN = 5  # number of failed cells to print; all are in the folder

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "study": "STUDY",
    "out": "--out",
    "root": "--root",
    "backend": "--backend",
    "address": "--address",
    "jobs": "--jobs",
    "log_to": "--log-to",
    "shard": "--shard",
    "outputs": "--outputs",
    "pack": "--pack",
}


@naming("openset bench", _OPTIONS)
def command(
    study: Annotated[
        Path | None,
        typer.Argument(
            metavar="STUDY",
            help="Study file, YAML or TOML; or the name of a benchmark, such as "
            "openood:cifar10.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results of a study; a run that is already there is "
            "continued. For a benchmark: folder for its table.",
            metavar="DIR",
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the named benchmarks, then exit.")
    ] = False,
    outputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="For a benchmark: outputs of your network, as openset bench NAME "
            "describes them, or a .tar file written by --pack.",
        ),
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            "-d",
            help="For a benchmark: a detector to score, such as knn:k=20; may be "
            "repeated (default: those recommended for these outputs).",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="For a benchmark: skip data sets whose outputs are missing "
            "(default: stop with an error).",
        ),
    ] = False,
    pack: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For a benchmark: write the outputs to one .tar file, which others "
            "can score without your network.",
        ),
    ] = None,
    root: Root = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the plan and the estimated time, then exit."
        ),
    ] = False,
    backend: Annotated[
        str,
        typer.Option(
            help="Where cells run: loky (processes on this machine), ray, dask or "
            "sequential (one after the other, in this process)."
        ),
    ] = "loky",
    address: Annotated[
        str | None,
        typer.Option(
            help="For ray and dask: address of a running "
            "cluster (default for ray: the cluster of this machine)."
        ),
    ] = None,
    jobs: Workers = -1,
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Run only part I of N, e.g. one task of a job array (3/8). The same "
            "command without --shard then runs what is left and shows the results.",
        ),
    ] = "",
    by_protocol: Annotated[
        bool,
        typer.Option(
            "--by-protocol",
            help="Print one table per metric of the study, with a column per protocol.",
        ),
    ] = False,
    save: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also write the leaderboard to this file: .md, .csv, .tex or .parquet."
        ),
    ] = None,
    log_to: LogTo = None,
) -> None:
    """Run a study, or score outputs of your network on a named benchmark.

    A study runs every combination of the protocols, models, detectors and seeds that
    its file names; each combination is a cell. A named benchmark needs --outputs;
    without it, its definition is shown.
    """
    if list_:
        _named_benchmarks.list_all()
        return
    if study is None:
        msg = (
            "openset bench: STUDY must be given: a study file, or the name of a "
            "benchmark (openset bench --list)"
        )
        raise typer.BadParameter(msg)
    if _named_benchmarks.is_name(study):
        _named(str(study), outputs, out, detector, partial=partial, pack=pack)
        return
    if not study.exists():  # before it asks for options
        msg = f"openset bench: no such file: {study}"
        raise FileNotFoundError(msg)
    of_benchmarks = {
        "--outputs": outputs,
        "--detector": detector,
        "--partial": partial,
        "--pack": pack,
    }
    _refuse(of_benchmarks)
    need_root("openset bench", root)
    if out is None:
        msg = "openset bench: --out must be given: the run folder of the study"
        raise typer.BadParameter(msg)
    # Imported here: the extra may be missing, and --help should be fast.
    from openset import bench  # noqa: PLC0415

    for path in save or ():  # before the study runs, which may take hours
        _check.ending("bench", path, stats.Leaderboard.ENDINGS)
    if dry_run:
        _plan(bench.read(study), out, backend, jobs, root)
        return
    try:
        done = bench.run(
            study,
            out,
            backend=backend,
            address=address,
            jobs=jobs,
            root=root,
            log_to=log_to,
            shard=_shard(shard) if shard else None,
            watch=bench.live_progress,
        )
    except KeyboardInterrupt:
        n = len(runs.finished(out))
        advice = (
            f"{_plural(n, 'cell')} finished. Run the same command again to continue."
        )
        raise KeyboardInterrupt(advice) from None
    if not shard:
        _tables(study, out, save or (), by_protocol=by_protocol)
    OUT.say(escape(str(done)))
    if shard:
        OUT.print(
            "When all shards are done, run the command without --shard.",
            highlight=False,
        )
    if done.failed:
        _failures(done.failed)
        raise typer.Exit(1)


def _refuse(of_benchmarks: Mapping[str, object]) -> None:
    for option, value in of_benchmarks.items():
        if value:
            msg = f"openset bench: {option} can only be used with a named benchmark"
            raise typer.BadParameter(msg)


def _named(
    name: str,
    outputs: Path | None,
    out: Path | None,
    detector: list[str] | None,
    *,
    partial: bool,
    pack: Path | None,
) -> None:
    if outputs is None:
        if out or detector or pack:
            msg = f"openset bench: --outputs must be given, to score {name}"
            raise typer.BadParameter(msg)
        _named_benchmarks.describe(name)
        return
    if out is None and pack is None:
        msg = "openset bench: --out must be given: the folder for the table"
        raise typer.BadParameter(msg)
    if pack is not None:
        _named_benchmarks.pack(name, outputs, pack)
    if out is not None:
        _named_benchmarks.score(name, outputs, out, detector, partial=partial)


def _tables(study: Path, out: Path, save: Iterable[Path], *, by_protocol: bool) -> None:
    from openset import bench  # noqa: PLC0415

    found = runs.results(out)
    if len(found):
        headline, *metrics = (row.key for row in bench.read(study).rows())
        board = stats.leaderboard(found, headline)
        OUT.print(board)
        if by_protocol:
            for metric in dict.fromkeys(metrics):
                if metric != headline:
                    OUT.print(stats.leaderboard(found, metric))
        elif set(metrics) != {headline}:
            OUT.print(stats.leaderboard(found, metrics, columns="metric"))
        for name in _seedless(found):
            OUT.print(
                f"{name}: all seeds give the same results, and each counts as a run "
                "above: standard deviations and p-values are too small. Run it with "
                "one seed, or draw more classes (repeats).",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        for path in save:
            board.save(path)


def _seedless(results: Results) -> list[str]:
    """Return the models whose results do not depend on the seed."""
    values: dict[str, dict[tuple[Any, ...], dict[int, float]]] = {}
    for row in results:
        model = " · ".join(filter(None, (row.model, row.method)))
        key = (row.protocol, row.repeat, row.detector, row.metric)
        values.setdefault(model, {}).setdefault(key, {})[row.seed] = row.value
    return [
        model
        for model, by_key in values.items()
        if max(map(len, by_key.values())) > 1
        and all(len(set(by_seed.values())) == 1 for by_seed in by_key.values())
    ]


def _shard(text: str) -> tuple[int, int]:
    number, _, n = text.partition("/")
    if not (number.isdecimal() and n.isdecimal()):
        rule = "I/N, such as 3/8"
        raise ValueError(
            _check.must(rule, caller="bench", name="shard", got=repr(text))
        )
    return int(number), int(n)


def _plan(study: object, out: Path, backend: str, jobs: int, root: Path | None) -> None:
    from openset import bench  # noqa: PLC0415

    made = bench.plan(study)  # type: ignore[arg-type]
    done = runs.finished(out)
    counts: dict[tuple[str, str, str], list[int]] = {}
    for task in made.tasks:
        key = tuple(task.key[name] for name in ("protocol", "model", "method"))
        row = counts.setdefault(key, [0, 0])
        row[0] += 1
        row[1] += task.id in done
    table = plain_table("Plan")
    for head in ("protocol", "model", "method", "cells", "finished"):
        table.add_column(
            head, justify="right" if head in {"cells", "finished"} else "left"
        )
    for key, (n, finished) in counts.items():
        table.add_row(*map(escape, key), str(n), str(finished))
    OUT.print(table)
    workers = bench.n_workers(backend, jobs)
    if made.ids <= done:
        left = "Nothing is left to run."
    else:
        found = bench.estimate(made, out if done else None, root=root)
        n = found.n_unknown
        more = f"; {_plural(n, 'part')} without an estimate" if n else ""
        left = (
            f"About {_duration(found.on(workers))} on "
            f"{_plural(workers, 'worker')} ({found.source}{more})."
        )
    OUT.say(
        f"{_plural(len(made), 'cell')} on {_plural(len(made.networks()), 'network')}, "
        f"{len(made.ids & done)} finished. {left}"
    )


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def _duration(seconds: float) -> str:
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return _plural(round(seconds / size), unit)
    return _plural(max(round(seconds), 1), "second")


def _describe(key: Mapping[str, object]) -> str:
    """Describe a cell in words: protocol, model, method, detector, repeat and seed."""
    names = [str(key[n]) for n in ("protocol", "model", "method", "detector") if key[n]]
    return ", ".join([*names, f"repeat {key['repeat']}", f"seed {key['seed']}"])


def _failures(failed: tuple[dict[str, object], ...]) -> None:
    for one in failed[:_SHOWN]:
        text = f"{_describe(one['key'])}: {one['error']}"  # type: ignore[arg-type]
        ERRORS.say(f"[bold red]failed:[/bold red] {escape(text)}")
    if len(failed) > _SHOWN:
        n = len(failed) - _SHOWN
        ERRORS.print(f"… and {n} more, in the folder failed/", highlight=False)
