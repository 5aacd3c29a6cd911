"""`run`: compute an item; write its results, page and figures."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from openset import _io, report
from openset._types import ArtefactError
from openset.reproduce._item import Content, Item, Settings
from openset.reproduce._registry import get, items
from openset.reproduce._table import Table

_KIND, _SCHEMA = "openset.Reproduction", 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """The results of an item: tables, names of figure files, remarks, provenance.

    `command` computes it again.
    """

    name: str
    paper: str
    number: str
    what: str
    command: str
    tables: tuple[Table, ...]
    figures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "kind": _KIND,
            "schema": _SCHEMA,
            "name": self.name,
            "paper": self.paper,
            "number": self.number,
            "what": self.what,
            "command": self.command,
            "tables": [table.to_dict() for table in self.tables],
            "figures": list(self.figures),
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }

    def save(self, path: str | Path) -> Path:
        """Write a results file."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        _write(Path(path), f"{text}\n")
        return Path(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        names = ("name", "paper", "number", "what", "command")
        plain = {key: data[key] for key in names}
        return cls(
            **plain,
            tables=tuple(map(Table.from_dict, data["tables"])),
            figures=tuple(data["figures"]),
            notes=tuple(data["notes"]),
            provenance=data["provenance"],
        )

    def markdown(self, *, figures: str = "") -> str:
        """Return tables, figures and remarks in Markdown.

        `figures` is put before the names of figure files.
        """
        parts = []
        for table in self.tables:
            parts += [f"**{table.title}**", table.markdown()]
            parts += [table.note] if table.note else []
        alt = f"{self.paper}, {self.number}: {self.what}".rstrip(".")
        parts += [f"![{alt}]({figures}{name})" for name in self.figures]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts)


def run(name: str | Item, settings: Settings) -> Reproduction:
    """Compute an item; write ``results.json``, ``page.md`` and its figures.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = run("openauc-table1", Settings(out=Path(folder)))
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['page.md', 'results.json']
    """
    from openset.bench import NoGPUError, Provenance  # noqa: PLC0415  # extra bench

    item = name if isinstance(name, Item) else get(name)
    provenance = Provenance()
    settings.out.mkdir(parents=True, exist_ok=True)
    try:
        content = item.make(settings)
    except NoGPUError as error:
        msg = (
            f"reproduce: {item.name} needs a GPU, and torch finds none on this machine."
            f"{_small_version(item)} To train at full size on the CPU all the same, "
            f"run openset bench on copies of the study files in {settings.out}, "
            "without gpus"
        )
        raise NoGPUError(msg) from error
    given = "" if settings.outputs is None else " --outputs outputs"
    made = Reproduction(
        name=item.name,
        paper=item.paper,
        number=item.number,
        what=item.what,
        command=f"openset reproduce {item.name}{given}",
        tables=content.tables,
        figures=_drawn(content, settings.out),
        notes=content.notes,
        provenance={
            key: value
            for key, value in provenance.record(seed=0, protocol_hash="").items()
            if key not in {"seed", "protocol_hash"}  # an item has several, or none
        },
    )
    page = f"# {made.paper}: {made.number}\n\n{made.what}\n\n{made.markdown()}\n"
    _write(settings.out / "page.md", page)
    made.save(settings.out / "results.json")  # last: the item is finished
    return made


def _small_version(item: Item) -> str:
    """Name the small version of an item or of the table it belongs to, if any."""
    names = {one.name for one in items()}
    for stem in (item.name, item.name.rpartition("-")[0]):
        if f"{stem}-small" in names:
            return f" A small version runs on a CPU: {stem}-small."
    return ""


def _write(path: Path, text: str) -> None:
    _io.write(path, lambda stream: stream.write(text.encode()))


def _drawn(content: Content, out: Path) -> tuple[str, ...]:
    names = []
    for name, figure in content.figures.items():
        names.append(f"{name}.png")
        if isinstance(figure, report.Display):
            figure.plot(out / names[-1])
        else:  # a figure of matplotlib
            figure.savefig(out / names[-1])
    return tuple(names)


def load(path: str | Path) -> Reproduction:
    """Read a ``results.json`` file."""
    path = Path(path)
    try:
        data = json.loads(path.read_text("utf-8"))
        if (data.get("kind"), data.get("schema")) != (_KIND, _SCHEMA):
            msg = (
                f"reproduce.load: {path} must be an {_KIND} of schema {_SCHEMA}. Run "
                "openset reproduce again"
            )
            raise ArtefactError(msg)
        return Reproduction.from_dict(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"reproduce.load: {path} is not a results file ({error})"
        raise ArtefactError(msg) from error
