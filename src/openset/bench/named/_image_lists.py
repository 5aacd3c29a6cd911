"""Lists of images that come with the package, one TOML file per benchmark."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FOLDER = "lists"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The images of one data set that a benchmark uses.

    Parameters
    ----------
    of
        The data set, as its authors publish it.
    file
        Path of an image in the folder of the data set, with ``{}`` for its number.
    n_images
        How many there are.
    source
        The list that the benchmark's authors publish.
    numbers
        Numbers of the images, with ranges such as ``3-5``.
    """

    of: str
    file: str
    n_images: int
    source: str
    numbers: str

    def paths(self) -> tuple[str, ...]:
        """Return the path of each image."""
        found: list[int] = []
        for word in self.numbers.split():
            first, _, last = word.partition("-")
            found += range(int(first), int(last or first) + 1)
        return tuple(self.file.format(number) for number in found)


@cache
def lists_of(benchmark: str) -> dict[str, Listed]:
    """Return the lists of a benchmark, by the name of the file of outputs."""
    file = (
        files("openset.bench.named") / _FOLDER / f"{benchmark.replace(':', '-')}.toml"
    )
    if not file.is_file():
        return {}
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: Listed(**one) for name, one in given.items()}
