"""`openset extract` over shards: the network and the job, as workers get them."""

import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from openset import _check, _io, shards
from openset._types import UNKNOWN, ArtefactError
from openset.cli._detector_options import recipe
from openset.cli._options import naming
from openset.datasets.lazy_inputs import ImageFiles
from openset.detectors import Detector
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.shards import Shard

_CALLER = "openset extract"
_IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm"}

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
    return Odin(**options)


def input_shards(data: str | Path) -> list[Shard]:
    """Return the shards of a folder, or URL, of .tar or .npy files; none otherwise."""
    is_remote = shards.is_url(data)
    if not is_remote and not Path(data).is_dir():
        return []
    others: list[str] = []

    def is_shard(path: Path, inner: set[str] | None) -> bool:
        is_input = inner is None and path.suffix in {".tar", ".npy"}
        others.extend([] if is_input else [path.name])
        return is_input

    found = shards.listed(data, is_shard, caller=_CALLER)
    if is_remote and (others or not found):
        rule = "a folder of .tar or .npy files"
        got = others[0] if others else "none"
        raise ValueError(_check.must(rule, caller=_CALLER, name=str(data), got=got))
    return [] if others else found


@dataclass(frozen=True)
class Extract:
    """Run a network on the inputs of every shard; a shard gives a .npz of outputs."""

    network: Network
    unknown: bool = False
    wanted: Wanted = Wanted()
    caller: str = _CALLER

    @property
    def identity(self) -> dict[str, Any]:
        """The network, and what labels are given."""
        return {
            "kind": "extract",
            **self.network.digest(),
            "unknown": self.unknown,
            "odin": self.wanted.odin,
            **self.wanted.digest(),
        }

    def files(self, shard: Shard, out: Path) -> list[Path]:
        """Return the file of a shard."""
        return [out / f"{shard.name}.npz"]

    def open(self) -> Callable[[Shard, Path], None]:
        """Load the network."""
        loaded = self.network.load()
        apply = partial(loaded.apply, **self.wanted.load(self.network.plugins))
        return partial(self._write, apply, len(loaded.classes))

    def _write(self, apply: Apply, n_known: int, shard: Shard, out: Path) -> None:
        names = {"step": self.wanted.option}
        with (
            naming(_CALLER, names),
            _inputs(shard, n_known) as (inputs, given, ids),
        ):
            labels = np.full(len(inputs), UNKNOWN) if self.unknown else given
            outputs = apply(inputs, labels=labels, groups=None, ids=ids)
        (path,) = self.files(shard, out)
        outputs.save(path)


Inputs = tuple[Any, NDArray[np.int64] | None, list[str] | None]


@contextmanager
def _inputs(shard: Shard, n_known: int) -> Iterator[Inputs]:
    if shard.path.suffix == ".npy":
        yield read_array(shard.path), None, None
        return
    # Images stay on disk until their batch is read: memory does not grow with a shard.
    with tempfile.TemporaryDirectory(prefix="openset-tar-") as folder:
        yield _unpacked(shard.path, Path(folder), n_known)


def _unpacked(path: Path, folder: Path, n_known: int) -> Inputs:
    """Unpack the images of a WebDataset, which are named by what stands before the dot.

    A number in NAME.cls is the class; those the network does not have are unknown.
    """
    images: dict[str, str] = {}
    numbers: dict[str, int] = {}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                key = str(name.parent / name.name.partition(".")[0])
                stream = tar.extractfile(member) if member.isfile() else None
                if stream is None:
                    continue
                if name.suffix == ".cls":
                    numbers[key] = int(stream.read())
                elif name.suffix.lower() in _IMAGES:
                    target = folder / f"{len(images):08}{name.suffix.lower()}"
                    with target.open("wb") as copy:
                        shutil.copyfileobj(stream, copy)
                    images[key] = member.name
    except (tarfile.TarError, EOFError, ValueError) as error:
        msg = f"{_CALLER}: {path} is damaged or not a WebDataset ({error})"
        raise ArtefactError(msg) from error
    if not images:
        rule, got = "a .tar file with images", "none"
        raise ValueError(_check.must(rule, caller=_CALLER, name=str(path), got=got))
    missing = images.keys() - numbers.keys()
    if numbers and missing:
        rule, got = "a .cls for every image, or for none", f"none for {min(missing)}"
        raise ValueError(_check.must(rule, caller=_CALLER, name=str(path), got=got))
    labels = None
    if numbers:
        found = np.array([numbers[key] for key in images])
        labels = np.where((found >= 0) & (found < n_known), found, UNKNOWN)
    paths = [str(one) for one in sorted(folder.iterdir())]
    return ImageFiles(tuple(paths)), labels, list(images.values())


def read_array(path: Path) -> NDArray[Any]:
    """Read the array of a .npy file."""
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        rule = "an array of numbers written by np.save"
        got = "a damaged file, or pickled objects, which are never loaded"
        msg = _check.must(rule, caller=_CALLER, name=str(path), got=got)
        raise ArtefactError(msg) from error
