"""`openset extract`: options for a step of the inputs, and the layers it needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openset import _check, _io
from openset.cli._detector_options import recipe
from openset.cli._options import naming
from openset.detectors import Detector
from openset.outputs import Outputs
from openset.rejector import Rejector

_CALLER = "openset extract"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The options that say which outputs: the layers, and the step of the inputs.

    Attributes
    ----------
    odin
        Options of ODIN's step.
    detector, train
        A detector with a step over layers, and the outputs it is fitted on.
    rejector
        A folder or URL: the outputs that this rejector takes.
    """

    odin: str | None = None
    detector: str | None = None
    train: Path | None = None
    rejector: str | None = None

    def check(self, *, layers: str | None, fit_head: Path | None) -> None:
        """Refuse options that contradict each other."""
        given = {"--odin": self.odin, "--layers": layers, "--fit-head": fit_head}
        for owner, value in (
            ("--detector", self.detector),
            ("--rejector", self.rejector),
        ):
            others = [name for name, one in given.items() if one is not None]
            if value is not None and others:
                rule = f"left out with {owner}, which says how to extract"
                got = given[others[0]]
                msg = _check.must(rule, caller=_CALLER, name=others[0], got=got)
                raise ValueError(msg)
            given[owner] = value
        if self.odin is not None and fit_head is not None:
            rule = (
                "left out with --fit-head: a last layer is fitted on inputs as they are"
            )
            msg = _check.must(rule, caller=_CALLER, name="--odin", got=self.odin)
            raise ValueError(msg)
        if (self.detector is None) != (self.train is None):
            has, lacks = "--detector", "--train"
            if self.detector is None:
                has, lacks = lacks, has
            rule, got = f"given with {has}", "none"
            raise ValueError(_check.must(rule, caller=_CALLER, name=lacks, got=got))
        if self.odin is not None:
            odin_step(self.odin)
        if self.detector is not None:
            self._recipe(self.detector)

    @property
    def option(self) -> str:
        """The option that a step comes from."""
        if self.odin is not None:
            return "--odin"
        return "--detector" if self.detector is not None else "--rejector"

    def load(self, plugins: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the step and the layers, as `apply` takes them."""
        if self.odin is not None:
            return {"step": odin_step(self.odin)}
        if self.rejector is None and self.train is None:
            return {}
        from openset.train import how_to_extract  # noqa: PLC0415  # the extra

        if self.rejector is not None:
            found = Rejector.load(self.rejector, plugins=plugins)
            return how_to_extract(found.fitted, found.input_step)
        train = Outputs.load(self.train or Path())
        with naming(_CALLER, {"outputs": f"--train {self.train}"}):
            return how_to_extract(self._recipe(self.detector or "").fit(train))

    def digest(self) -> dict[str, Any]:
        """Return what the outputs depend on; nothing for options that were left out."""
        place = Path(self.rejector or "") / "manifest.json"
        files = [one for one in (self.train, place) if one and one.is_file()]
        found: dict[str, Any] = {
            "detector": self.detector,
            "rejector": self.rejector,
            "step files": [_io.sha256(one) for one in files],
        }
        return {key: value for key, value in found.items() if value}

    def _recipe(self, text: str) -> Detector:
        made = recipe(text)
        if not made.input_step:
            msg = _check.must(
                "a detector that perturbs inputs, such as layered:epsilon=0.0014",
                caller=_CALLER,
                name="--detector",
                got=text,
                remedy="Other detectors take outputs as they are: leave it out",
            )
            raise ValueError(msg)
        return made


def odin_step(text: str) -> Any:
    """Read the options of ODIN's step."""
    from openset.train import Odin  # noqa: PLC0415  # the extra may be missing

    options: dict[str, Any] = {}
    for one in text.split(","):
        name, _, value = one.partition("=")
        _check.one_of(_CALLER, "--odin", name.strip(), ["temperature", "epsilon"])
        try:
            options[name.strip()] = float(value)
        except ValueError:
            rule, got = "NAME=VALUE with a number", repr(one)
            msg = _check.must(rule, caller=_CALLER, name="--odin", got=got)
            raise ValueError(msg) from None
    with naming(_CALLER, {name: f"{name} of --odin" for name in options}):
        return Odin(**options)
