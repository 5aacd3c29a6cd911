"""Live progress: networks, cells, time left, and the best methods so far."""

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from openset.bench._plan import Plan, Task, folder_of
from openset.runs import Cell
from openset.stats import direction

_EVERY = 0.5  # seconds between updates
_SHOWN = 12  # protocols in the table of best methods


class Watcher:
    """Reads progress from the run folder, so that it works with every backend."""

    def __init__(self, run: Path, made: Plan, tasks: Sequence[Task]) -> None:
        self._run, self._headline = run, made.study.rows()[0].key
        self._left = {task.id for task in tasks}
        self._networks = [
            path
            for source in made.networks(tasks)
            if not (path := folder_of(source, run, made.study.base)).exists()
        ]
        self._values: dict[str, dict[str, list[float]]] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        if self._networks:
            n = len(self._networks)
            self._network_bar = self.bars.add_task("networks", total=n)
        self._cell_bar = self.bars.add_task("cells", total=len(self._left))

    def look(self) -> None:
        """Update the bars and the table of best methods."""
        if self._networks:
            trained = sum(path.exists() for path in self._networks)
            self.bars.update(self._network_bar, completed=trained)
        for path in (self._run / "cells").glob("*.json"):
            if path.stem in self._left:
                self._left.discard(path.stem)
                self._note(Cell.load(path))
                self.bars.advance(self._cell_bar)
        for path in (self._run / "failed").glob("*.json"):
            if path.stem in self._left:
                self._left.discard(path.stem)
                self.bars.advance(self._cell_bar)

    def _note(self, cell: Cell) -> None:
        who = " · ".join(
            cell.key[n] for n in ("model", "method", "detector") if cell.key[n]
        )
        values = self._values.setdefault(cell.key["protocol"], defaultdict(list))
        for row in cell.rows:
            if row["metric"] == self._headline:
                values[who].append(row["value"])

    def leaders(self) -> dict[str, tuple[str, float, int]]:
        """Return the method with the best mean so far, per protocol."""
        sign = -1 if direction(self._headline) == "higher" else 1
        found = {}
        for protocol, values in self._values.items():
            if values:
                best = min(values, key=lambda who: (sign * mean(values[who]), who))
                found[protocol] = (best, mean(values[best]), len(values[best]))
        return found

    def __rich__(self) -> Group:
        leaders = sorted(self.leaders().items())
        if not leaders:
            return Group(self.bars)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for head in ("problem", "best so far", f"mean {self._headline}", "cells"):
            table.add_column(head)
        for protocol, (who, value, n) in leaders[:_SHOWN]:
            table.add_row(escape(protocol), escape(who), f"{value:.4f}", str(n))
        return Group(table, self.bars)


@contextmanager
def live_progress(run: Path, made: Plan, tasks: Sequence[Task]) -> Iterator[Watcher]:
    """Show progress on standard error while a study runs, if it is a terminal."""
    watcher = Watcher(run, made, tasks)
    console = Console(stderr=True)
    if not console.is_terminal:
        yield watcher
        return
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(_EVERY):
            watcher.look()

    with Live(watcher, console=console, transient=True, refresh_per_second=4):
        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        try:
            yield watcher
        finally:
            stop.set()
            thread.join()
            watcher.look()
