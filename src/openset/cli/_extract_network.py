"""`openset extract`: the network, by its options, and how to load it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from openset import _check, _io
from openset.outputs import Outputs

_CALLER = "openset extract"

Apply = Callable[..., Outputs]


@dataclass(frozen=True, kw_only=True)
class Network:
    """The options that name a network."""

    name: str
    weights: str | None
    classes: tuple[str, ...] | None
    prompts: tuple[str, ...] | None
    head: Path | None
    pooling: str | None
    side: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    batch_size: int | None
    device: str | None
    plugins: tuple[str, ...]
    layers: tuple[str, ...] = ()

    @property
    def is_run(self) -> bool:
        """Whether it is a folder of openset train, not a name or an ONNX file."""
        is_named = ":" in self.name or self.name.endswith(".onnx")
        return (Path(self.name) / "trained.json").exists() or not is_named

    def check(self, *, fit_head: Path | None = None) -> None:
        """Raise for options that a folder of openset train does not need."""
        others = {
            "--weights": self.weights,
            "--classes": self.classes,
            "--prompts": self.prompts,
            "--head": self.head,
            "--fit-head": fit_head,
            "--pooling": self.pooling,
            "--side": self.side,
        }
        unused = [option for option, given in others.items() if given is not None]
        if self.is_run and unused:
            msg = (
                f"{_CALLER}: {', '.join(unused)} cannot be used with a folder "
                "of openset train: the trained network is used as it is"
            )
            raise typer.BadParameter(msg)

    def load(self, *, fit_head: bool = False) -> "Loaded":
        """Load the network; without its last layer, if one is to be fitted."""
        if self.is_run:
            if not Path(self.name).exists():
                msg = _check.must(
                    "timm:NAME, torchvision:NAME, hf:NAME, package.module:name, an "
                    "ONNX file, or a folder written by openset train",
                    caller=_CALLER,
                    name="NETWORK",
                    got=f"{self.name}, which does not exist",
                )
                raise FileNotFoundError(msg)
            # Imported here: the extra may be missing.
            from openset.train import Trained  # noqa: PLC0415

            trained = Trained.load(Path(self.name), plugins=self.plugins)
            apply = partial(trained.apply, layers=self.layers)
            return Loaded(trained.classes, apply, lambda: trained.model().backbone)
        from openset.integrations import networks  # noqa: PLC0415

        found = networks.load(
            self.name,
            weights=self.weights,
            classes=self.classes or (),
            prompts=self.prompts or (),
            head=self.head,
            pooling=self.pooling,
            side=self.side,
            mean=self.mean,
            std=self.std,
        )
        if fit_head and self.name.endswith(".onnx"):
            rule, got = "left out for an ONNX file", self.name
            msg = _check.must(rule, caller=_CALLER, name="--fit-head", got=got)
            raise ValueError(msg)
        if fit_head:
            found = found.without_head()
        note = f"{found.name}: {found.note}" if found.note else ""
        apply = partial(
            found.apply,
            batch_size=self.batch_size,
            device=self.device,
            layers=self.layers,
        )
        return Loaded(
            found.classes, apply, lambda: found.model, embeds=found.embeds, note=note
        )

    def digest(self) -> dict[str, Any]:
        """Return what the outputs depend on."""
        options = asdict(self)
        del options["batch_size"], options["device"], options["head"]
        files = [Path(self.name) / "trained.json", Path(self.name), self.head]
        hashes = [_io.sha256(path) for path in files if path and path.is_file()]
        return {**options, "files": hashes}


@dataclass(frozen=True)
class Loaded:
    """A network: its classes, how to apply it, itself, and a note for the user."""

    classes: tuple[str, ...]
    apply: Apply
    model: Callable[[], Any]
    embeds: bool = False
    note: str = ""

    def layers(self) -> list[tuple[str, str]]:
        """Return name and kind of every layer; none of an ONNX file."""
        modules = getattr(self.model(), "named_modules", None)
        found = [] if modules is None else modules()
        return [(name, type(one).__name__) for name, one in found if name]
