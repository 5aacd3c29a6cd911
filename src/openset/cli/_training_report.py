"""`openset train`: print methods, notes and results, from one process only."""

import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from openset import protocols
from openset.cli._console import ERRORS, OUT
from openset.cli._lists import plain_table
from openset.protocols import Protocol

_SHOWN = 8


def is_main_process() -> bool:
    """Return whether this process prints: the only one, or the first of many."""
    from torch import distributed  # noqa: PLC0415  # slow: not for --help

    is_one_of_many = distributed.is_available() and distributed.is_initialized()
    return not is_one_of_many or distributed.get_rank() == 0


def run_title(split: str, seed: int) -> str:
    """Return what a run is called in tables."""
    return f"split {split}, seed {seed}"


def methods_table(registry: Any) -> Table:
    """List the training methods and their options."""
    table = plain_table("Training methods")
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("paper")
    table.add_column("score", no_wrap=True)
    table.add_column("options")
    for name, method in registry.items():
        found = (f"{k}={_text(v)}" for k, v in method.options().items())
        table.add_row(name, method.paper, method.score, ", ".join(found))
    return table


def _text(value: Any) -> str:
    return "…" if value is None else str(value)


def say_start(
    network: str | None, *, is_pretrained: bool, changes: Mapping[str, Any]
) -> None:
    """Say what is rarely meant: random weights, or their learning rate for others."""
    note = ""
    if is_pretrained and "lr" not in changes:
        note = (
            "The learning rate of the recipe is for random weights, and usually "
            "too large for pretrained ones. To fine-tune: --lr 0.01"
        )
    elif ":" in (network or "") and not is_pretrained:
        note = (
            f"{network} starts from random weights. To fine-tune: --pretrained, or "
            "--weights FILE"
        )
    if note and is_main_process():
        ERRORS.say(escape(note))


def say_drawn(protocol: Protocol, split: str, n_draws: int) -> None:
    """Say which classes were drawn as unknown."""
    if not is_main_process():
        return
    names = ", ".join(map(str, protocol.unknown[:_SHOWN]))
    more = f" and {len(protocol.unknown) - _SHOWN} more"
    OUT.say(
        f"No published protocol for these data. Drawn with seed 0 (draw {split} of "
        f"{n_draws}): {protocol.n_known} known classes; unknown, and not trained on: "
        f"{escape(names)}{more * (len(protocol.unknown) > _SHOWN)}. It is saved with "
        "the results as protocol.json. To choose the known classes yourself: --known"
    )


def say_tuned(split: str, tuned: Any) -> None:
    """List the values that were tried, the best in bold; name those that are used."""
    if not is_main_process():
        return
    rows = tuned.table
    best = [r for r in rows if r["openauc"] == max(row["openauc"] for row in rows)]
    equal = f" (the first of {len(best)} equally good ones)" if len(best) > 1 else ""
    OUT.print(_tuning_table(split, tuned))
    OUT.print(
        f"Split {split} is trained with {escape(_values(best[0]))}{equal}.",
        highlight=False,
        soft_wrap=True,
    )


def _values(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row["options"].items())


def _tuning_table(split: str, tuned: Any) -> Table:
    table = plain_table(f"Split {split}, on held-out known classes")
    table.add_column("values")
    table.add_column("OpenAUC, mean", justify="right")
    table.add_column("each draw", justify="right")
    best = max(row["openauc"] for row in tuned.table)
    for row in tuned.table:
        mean = f"{row['openauc']:.4f}"
        mark = "bold green" if row["openauc"] == best else ""
        draws = ", ".join(f"{value:.4f}" for value in row["draws"])
        table.add_row(escape(_values(row)), mean, draws, style=mark)
    return table


def say_done(
    kind: Any,
    runs: Mapping[tuple[str, int], Any],
    done: Sequence[Any],
    trained: Sequence[Protocol],
) -> None:
    """Print the results of all runs, cautions before and what to do next after."""
    titles = [run_title(*key) for key in runs]
    OUT.print(_results_table(kind.title, dict(zip(titles, done, strict=True))))
    first = Path(next(iter(runs.values())).out)
    _say_what_next(first, trained, several=len(runs) > 1)


def _results_table(method: str, done: dict[str, Any]) -> Table:
    table = plain_table(f"{method}, test part, last epoch")
    table.add_column("run", no_wrap=True)
    columns = ("accuracy", "AUROC", "OpenAUC", "by max logit", "by max probability")
    for column in columns:
        table.add_column(column, justify="right")
    rows = []
    for name, one in done.items():
        published = one.evaluate("published")
        row = [published[metric] for metric in ("accuracy", "auroc", "openauc")]
        row += [one.evaluate(rule)["openauc"] for rule in ("maxlogit", "msp")]
        rows.append(row)
        table.add_row(name, *(f"{value:.4f}" for value in row))
    if len(rows) > 1:
        table.add_section()
        for name, summary in (("mean", statistics.mean), ("sd", statistics.stdev)):
            cells = (f"{summary(column):.4f}" for column in zip(*rows, strict=True))
            table.add_row(name, *cells)
    return table


def _say_what_next(run: Path, trained: Sequence[Protocol], *, several: bool) -> None:
    same = protocols.Draws(tuple(trained)).duplicates
    if same:
        OUT.print(
            "[yellow]Some of these splits are the same problem[/yellow] "
            f"({'; '.join(' = '.join(map(str, group)) for group in same)}): the "
            "standard deviation over splits is too small.",
            highlight=False,
        )
    where = escape(shlex.quote(str(run)))
    others = ", and so on for every run" if several else ""
    lines = [f"Outputs are in {where}/outputs, scores in {where}/scores{others}. Next:"]
    for purpose, command in {
        "all metrics": f"openset evaluate {where}/scores/published.npz",
        "another detector": f"openset score -d postmax --train "
        f"{where}/outputs/train.npz {where}/outputs/test.npz",
        "a report": f"openset report {where}",
        "a rejector": f"openset calibrate --run {where} --out rejector/",
        "new data": f"openset extract {where} DATA",
    }.items():
        lines.append(f"  {purpose + ':':<17} [bold]{command}[/bold]")
    OUT.say("\n".join(lines))
