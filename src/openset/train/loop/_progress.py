"""Progress bars of training: one line per run, with speed and time left."""

import time
from typing import Any, Self

from rich import progress
from rich.console import Console

from openset.train.loop._run import TrainingRun

_SHOWN = 12  # lines that fit on a screen; further runs are trained without a bar


class Progress:
    """Bars for runs that train together."""

    def __init__(self, runs: list[tuple[str, TrainingRun]], *, shown: bool) -> None:
        console = Console(stderr=True)
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("epoch {task.fields[epoch]}"),
            progress.TextColumn("loss {task.fields[loss]}"),
            progress.TextColumn("{task.fields[speed]}"),
            progress.TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal),
        )
        self._tasks = [
            (run, self._bars.add_task(title, total=run.n_updates, **_fields(run)))
            for title, run in runs[:_SHOWN]
        ]
        self._counts = {id(run): 0 for _, run in runs}
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._bars.stop()

    def start_at(self, run: TrainingRun) -> None:
        """Count the updates that a resumed run has made already."""
        self._counts[id(run)] = run.done * run.n_updates // run.spec.recipe.epochs

    def advance(self, run: TrainingRun) -> None:
        """Count one update; draw a few times a second."""
        self._counts[id(run)] += 1
        now = time.monotonic()
        if self._bars.disable or now - self._drawn < 0.2:
            return
        self._drawn = now
        self._draw()

    def _draw(self) -> None:
        for run, task in self._tasks:
            counted = self._counts[id(run)]
            self._bars.update(task, completed=counted, **_fields(run))


def _fields(run: TrainingRun) -> dict[str, Any]:
    epoch = f"{run.done}/{run.spec.recipe.epochs}"
    fields: dict[str, Any] = {"epoch": epoch, "loss": "–", "speed": ""}
    if run.log.lines:
        last = run.log.lines[-1]
        fields["loss"] = f"{last['loss']:.3f}"
        fields["speed"] = f"{last['samples_per_second']:,.0f}/s"
    return fields
