"""Downloads that are resumed after an interruption, and checked.

Why not pooch: it restarts an interrupted download from zero, and takes one address.
"""

import hashlib
import http.client
import logging
import os
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openset import _io, _locks
from openset._types import ArtefactError

_LOG = logging.getLogger(__name__)
OFFLINE = "OPENSET_OFFLINE"
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt, twice that before the third
TIMEOUT = 30.0
_CHUNK = 1 << 18
_USER_ERROR, _RANGE_ERROR = 400, 416


@dataclass(frozen=True, slots=True)
class File:
    """An official file: its name, where it is published, its checksum.

    `digest` is ``md5:…`` or ``sha256:…``, as the publisher gives it.
    """

    name: str
    digest: str
    urls: tuple[str, ...] = ()


class _TransferError(OSError):
    """A transfer broke off; another attempt may continue it."""


def is_offline(*, offline: bool | None) -> bool:
    """Return whether downloads are forbidden by the argument, else the environment."""
    if offline is not None:
        return offline
    return os.environ.get(OFFLINE, "").strip().lower() not in ("", "0", "false", "no")


def check(path: Path, digest: str) -> None:
    """Compare a file with its checksum."""
    found = _digest(path, digest)
    if found != digest:
        msg = (
            f"datasets: {path} must have {digest}, got {found}. It is damaged or "
            "another version: delete it and load again, or pass verify=False to use it"
        )
        raise ArtefactError(msg)


def download(file: File, target: Path) -> Path:
    """Fetch a file to `target`; it appears there only complete and checked.

    After an interruption the bytes that arrived stay in ``<name>.part``; the next
    attempt, in this call or a later one, continues from there. If several processes
    want the same file, one downloads it and the others wait.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locks.locked(target.with_name(f".{target.name}.lock")) as is_alone:
        if target.exists():  # another process was faster, and checked it
            return target
        # Without a lock, another process may be writing to the common partial file.
        mine = "" if is_alone else f".{secrets.token_hex(4)}"
        part = target.with_name(f"{target.name}{mine}.part")
        try:
            return _from_any(file, target, part)
        finally:
            if mine:
                part.unlink(missing_ok=True)


def _from_any(file: File, target: Path, part: Path) -> Path:
    troubles = []
    # A partial file may be of another version: then the first address is tried twice.
    again = file.urls[:1] if part.exists() else ()
    for url in (*again, *file.urls):
        _LOG.info("downloading %s from %s", file.name, url)
        try:
            _attempts(url, part)
        except (_TransferError, urllib.error.URLError) as error:
            troubles.append(f"{url}: {error}")
            continue
        found = _digest(part, file.digest)
        if found == file.digest:
            part.replace(target)
            _LOG.info("downloaded %s, checksum right", target)
            return target
        part.unlink()
        troubles.append(f"{url}: wrong checksum {found}")
    got = part.stat().st_size if part.exists() else 0
    kept = f"{got:,} bytes are kept; the next call continues. " if got else ""
    msg = (
        f"datasets: could not download {file.name}:\n  "
        + "\n  ".join(troubles)
        + f"\n{kept}Or put the file ({file.digest}) at {target} yourself"
    )
    raise ConnectionError(msg)


def _attempts(url: str, part: Path) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _transfer(url, part)
        except urllib.error.HTTPError as error:
            # 4xx is final; 5xx and broken connections may pass.
            if error.code < 500 or attempt == ATTEMPTS:
                raise
        except (OSError, http.client.HTTPException) as error:
            if _io.is_of_the_disk(error):
                raise
            if attempt == ATTEMPTS:
                msg = f"interrupted {ATTEMPTS} times ({error})"
                raise _TransferError(msg) from error
        else:
            return
        time.sleep(PAUSE * attempt)


def _transfer(url: str, part: Path) -> None:
    """Append to `part` what is missing of the file at `url`."""
    if not url.startswith(("http://", "https://")):
        msg = f"not a web address: {url}"
        raise urllib.error.URLError(msg)
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "openset", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # scheme checked above
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()  # its connection; Python 3.14 warns of one left open
        if error.code != _RANGE_ERROR or not have:
            raise
        # No bytes after ours: the file is complete, or it is another file.
        complete = error.headers.get("Content-Range", "") == f"bytes */{have}"
        if complete:
            return
        part.unlink()
        msg = "the partial file is longer than the file; starting again"
        raise _TransferError(msg) from error
    with response:
        is_rest = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if is_rest and not _starts_at(response, have):
            part.unlink()
            msg = "the server sent another range than requested"
            raise _TransferError(msg)
        start = have if is_rest else 0  # 200: the server sends the whole file
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        _copy(response, part, start=start, total=total)


def _starts_at(response: Any, start: int) -> bool:
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {start}-")


def _copy(response: Any, part: Path, *, start: int, total: int | None) -> None:
    name = part.name.removesuffix(".part")
    have = start
    with _io.appending(part, anew=not start) as out, _progress(name, total) as advance:
        advance(start)
        # read1 returns what has arrived, so a slow connection still shows progress.
        while chunk := response.read1(_CHUNK):
            out.write(chunk)
            out.flush()  # what has arrived is kept if this process is killed
            have += len(chunk)
            advance(len(chunk))
    if total is not None and have < total:
        msg = f"{have:,} of {total:,} bytes arrived"
        raise _TransferError(msg)


@contextmanager
def _progress(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, and nothing in a log file."""
    from rich.console import Console  # noqa: PLC0415  # only needed for a download
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(name, total=total)
        yield lambda n: bar.advance(task, n)


def _digest(path: Path, like: str) -> str:
    kind = like.partition(":")[0]
    with path.open("rb") as stream:
        # md5 is what the publishers give; it detects damage, not attacks.
        found = hashlib.file_digest(
            stream, lambda: hashlib.new(kind, usedforsecurity=False)
        )
    return f"{kind}:{found.hexdigest()}"
