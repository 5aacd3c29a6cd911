"""`openset extract` over shards: find them, and the job, as workers get it."""

import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, shards
from openset._types import UNKNOWN, ArtefactError
from openset.cli._extract_invalid import found_invalid, mentioning_option
from openset.cli._extract_network import Apply, Network
from openset.cli._extract_step import Wanted
from openset.cli._options import naming
from openset.datasets.lazy_inputs import ImageFiles, is_image
from openset.outputs import Invalid
from openset.shards import INVALID, Shard

_CALLER = "openset extract"


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
    if others:
        return []
    shards.need_names_once(found, data, caller=_CALLER)
    return found


@dataclass(frozen=True)
class Extract:
    """Run a network on the inputs of every shard; a shard gives a .npz of outputs.

    With ``invalid="keep"``, ``invalid/SHARD.json`` says how many samples are invalid. A
    finished shard has the same outputs either way: a run may go on with the other.
    """

    network: Network
    unknown: bool = False
    wanted: Wanted = field(default_factory=Wanted)
    invalid: Invalid = "error"
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
            about = {"labels": labels, "groups": None, "ids": ids}
            with mentioning_option(ids):
                outputs = apply(inputs, **about, invalid=self.invalid)
        (path,) = self.files(shard, out)
        record = out / INVALID / f"{shard.name}.json"
        record.unlink(missing_ok=True)  # of other data, before they were replaced
        found = found_invalid(outputs)
        if found:  # before the outputs appear: the shard is done then
            _io.put(record, json.dumps({"shard": shard.name, **found}, indent=1))
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
                elif is_image(name):
                    if key in images:
                        names = f"{images[key]} and {member.name}"
                        msg = f"two images of one sample: {names}"
                        raise ValueError(msg)  # noqa: TRY301
                    target = folder / f"{len(images):08}{name.suffix.lower()}"
                    with target.open("wb") as copy:
                        shutil.copyfileobj(stream, copy)
                    images[key] = member.name
            _need_end(tar)
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
    ids = list(images.values())
    shown = tuple(f"{one} of {path}" for one in ids)
    return ImageFiles(tuple(paths), names=shown), labels, ids


def _need_end(tar: tarfile.TarFile) -> None:
    """Raise unless zeros, and nothing else, follow the members.

    tarfile takes a header that is cut off or damaged for the end of the archive.
    """
    file: Any = tar.fileobj
    file.seek(tar.offset)
    rest = file.read(tarfile.BLOCKSIZE)
    if len(rest) < tarfile.BLOCKSIZE:
        msg = f"cut off after {len(tar.getmembers())} members"
        raise tarfile.ReadError(msg)
    while rest:
        if any(rest):
            msg = f"no member follows the {len(tar.getmembers())} read, but other bytes"
            raise tarfile.ReadError(msg)
        rest = file.read(tarfile.RECORDSIZE)


def read_array(path: Path) -> NDArray[Any]:
    """Read the array of a .npy file."""
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        rule = "an array of numbers written by np.save"
        got = "a damaged file, or pickled objects, which are never loaded"
        msg = _check.must(rule, caller=_CALLER, name=str(path), got=got)
        raise ArtefactError(msg) from error
