"""Checksums and addresses of the files of data sets, from ``checksums.txt``."""

from pathlib import Path

from openset.datasets._download import File


def _read() -> dict[str, tuple[File, ...]]:
    found: dict[str, tuple[File, ...]] = {}
    text = Path(__file__).with_name("checksums.txt").read_text("utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            owner, digest, *places = line.split()
            urls = tuple(place for place in places if "://" in place)
            file = File(places[0].rpartition("/")[2], digest, urls)
            found[owner] = (*found.get(owner, ()), file)
    return found


FILES = _read()
"""Official files by the name of the data set, and copies of them by other names."""
