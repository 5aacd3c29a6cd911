"""Files of scores: named one by one, or by a pattern, ``runs/{method}_seed{seed}.csv``.

A field in braces stands for a part of a file's path. ``{seed}``, ``{run}``,
``{fold}`` and ``{split}`` number the repeats of a method, ``{protocol}`` names the
problem, and all other fields together name the method.
"""

import glob
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openset import _check

REPEATS = ("seed", "run", "fold", "split")
"""Fields that distinguish repeats of a method."""

_PROTOCOL = "protocol"
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_JOIN = " · "
_MOST_NAMED = 3  # files that an error shows


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """A file of scores: its method, its protocol, and which repeat it is.

    `fields` holds the text of every repeat field. `seed` and `repeat` are their numbers
    in a table of results: `seed` is that of ``{seed}``, `repeat` that of the others.
    """

    path: Path
    method: str
    protocol: str = ""
    fields: Mapping[str, str]
    seed: int = 0
    repeat: int = 0

    @property
    def has_repeats(self) -> bool:
        """Whether the pattern has a field for repeats."""
        return bool(self.fields)

    def __str__(self) -> str:
        shown = " ".join(f"{name} {value}" for name, value in self.fields.items())
        where = f" on {self.protocol}" if self.protocol else ""
        return f"{self.method}{where}{', ' if shown else ''}{shown}"


def is_pattern(path: str | Path) -> bool:
    """Whether a path has a field in braces, and no such file exists.

    Examples
    --------
    >>> is_pattern("runs/{method}_seed{seed}.csv"), is_pattern("runs/msp.csv")
    (True, False)
    """
    return _FIELD.search(str(path)) is not None and not Path(path).exists()


def find(patterns: str | Path | Sequence[str | Path]) -> list[ScoreFile]:
    """Find the files of one or several patterns, in the order of methods and repeats.

    Every method must have the same repeats on a protocol, once each.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("msp_seed0", "msp_seed1", "knn_seed0", "knn_seed1"):
    ...         _ = Path(folder, f"{name}.csv").write_text("")
    ...     [str(one) for one in find(f"{folder}/{{method}}_seed{{seed}}.csv")]
    ['knn, seed 0', 'knn, seed 1', 'msp, seed 0', 'msp, seed 1']
    """
    given = [patterns] if isinstance(patterns, str | Path) else patterns
    found = [one for pattern in given for one in _matching(str(pattern))]
    _check_fields(found)
    found = _numbered(found)
    _check_complete(found)
    return sorted(found, key=lambda one: (one.protocol, one.method, *_run(one)))


def find_or_name(paths: Sequence[str | Path]) -> list[ScoreFile]:
    """Return the files of patterns (see :func:`find`), or files given one by one.

    Those are detectors on one test set, in the order given. A detector is named after
    its file, or after its folders if file names are not unique.

    Examples
    --------
    >>> [one.method for one in find_or_name(["a/scores-msp.npz", "a/scores-knn.npz"])]
    ['msp', 'knn']
    >>> [one.method for one in find_or_name(["a/openauc/own.npz", "a/ceplus/own.npz"])]
    ['openauc', 'ceplus']
    """
    if any(map(is_pattern, paths)):
        return find(paths)
    files = [Path(path) for path in paths]
    names = _names(files)
    if min(len(set(names)), len({file.resolve() for file in files})) < len(files):
        msg = _check.must(
            "two or more different files",
            caller="score_files.find_or_name",
            name="SCORES",
            got=", ".join(map(str, files)),
            remedy="Detectors are named after their files and folders, without the "
            "ending",
        )
        raise ValueError(msg)
    return [
        ScoreFile(path=file, method=name, fields={})
        for file, name in zip(files, names, strict=True)
    ]


def _names(files: Sequence[Path]) -> list[str]:
    parts = [(*file.parts[:-1], file.stem.removeprefix("scores-")) for file in files]
    if len({one[-1] for one in parts}) == len(parts):
        return [one[-1] for one in parts]
    for end in (-1, 0):  # drop what all have in common
        while all(len(one) > 1 for one in parts) and len({o[end] for o in parts}) == 1:
            parts = [one[1:] if end == 0 else one[:-1] for one in parts]
    return ["/".join(one) for one in parts]


def _matching(pattern: str) -> Iterable[ScoreFile]:
    text = Path(pattern).expanduser().as_posix()
    pieces = _FIELD.split(text)  # literal, field, literal, field, ..., literal
    names = list(dict.fromkeys(pieces[1::2]))
    search = "*".join(map(glob.escape, pieces[::2]))
    paths = [Path(path) for path in sorted(glob.glob(search))]  # noqa: PTH207  # escaped text, absolute or not
    regex = re.compile(_regex(pieces))
    matches = [(path, regex.fullmatch(path.as_posix())) for path in paths]
    kept = [(path, found.groupdict()) for path, found in matches if found]
    if not kept:
        raise FileNotFoundError(_nothing(pattern, text, search))
    methods = [n for n in names if n not in REPEATS and n != _PROTOCOL]
    for path, values in kept:
        own = _JOIN.join(values[name] for name in methods)
        yield ScoreFile(
            path=path,
            method=own or _without_fields(Path(text).stem),
            protocol=values.get(_PROTOCOL, ""),
            fields={name: values[name] for name in names if name in REPEATS},
        )


def _regex(pieces: Sequence[str]) -> str:
    """Return the regular expression of a pattern, split into literals and fields.

    A name of a method may contain the text around it (``a_seed_b_seed0``); a number
    does not. So fields of repeats match as little as possible, the others as much.
    """
    seen: set[str] = set()
    parts = []
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            parts.append(re.escape(piece))
        elif piece in seen:
            parts.append(f"(?P={piece})")
        else:
            seen.add(piece)
            parts.append(f"(?P<{piece}>[^/]+{'?' if piece in REPEATS else ''})")
    return "".join(parts)


def _without_fields(stem: str) -> str:
    """Name a method by a pattern without a field for it.

    Examples
    --------
    >>> _without_fields("msp_seed{seed}")
    'msp'
    """
    return re.sub(r"[-_.]?(\w*?)[-_=]?\{\1\}", "", stem) or stem


def _nothing(pattern: str, text: str, search: str) -> str:
    folder = Path(text[: _FIELD.search(text).start()] + "x").parent  # type: ignore[union-attr]
    what = f"searched for {search}"
    if not folder.is_dir():
        what = f"no folder {folder}"
    else:
        near = sorted(path.name for path in folder.iterdir())[:_MOST_NAMED]
        what += f"; {folder} holds {', '.join(near)}, …" if near else "; it is empty"
    return _check.must(
        "a pattern that matches files",
        caller="score_files.find",
        name="SCORES",
        got=f"{pattern} ({what})",
        remedy="Quote it, and put fields in braces: 'runs/{method}_seed{seed}.csv'",
    )


def _check_fields(found: Sequence[ScoreFile]) -> None:
    """Raise if patterns have different fields: their repeats cannot be paired."""
    fields = list(dict.fromkeys(tuple(one.fields) for one in found))
    if len({frozenset(names) for names in fields}) > 1:
        got = " and ".join(", ".join(names) or "none" for names in fields)
        msg = _check.must(
            "patterns with the same fields for repeats",
            caller="score_files.find",
            name="SCORES",
            got=got,
        )
        raise ValueError(msg)


def _numbered(found: Sequence[ScoreFile]) -> list[ScoreFile]:
    """Return the files with the numbers of their repeats in a table of results."""
    seeds = _numbers([_texts(one, seed=True) for one in found])
    repeats = _numbers([_texts(one, seed=False) for one in found])
    return [
        ScoreFile(
            path=one.path,
            method=one.method,
            protocol=one.protocol,
            fields=one.fields,
            seed=seeds[_texts(one, seed=True)],
            repeat=repeats[_texts(one, seed=False)],
        )
        for one in found
    ]


def _texts(one: ScoreFile, *, seed: bool) -> tuple[str, ...]:
    return tuple(
        one.fields[name] for name in sorted(one.fields) if (name == "seed") == seed
    )


def _numbers(texts: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """Give each text its own number if all are whole numbers, else its place."""
    unique = sorted(set(texts), key=lambda words: [_natural(word) for word in words])
    own = {words: int(words[0]) for words in unique if _is_number(words)}
    if len(own) == len(unique) == len(set(own.values())):
        return own
    return {words: i for i, words in enumerate(unique)}


def _is_number(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and words[0].isascii() and words[0].isdigit()


def _natural(word: str) -> tuple[bool, int, str]:
    is_number = _is_number((word,))
    return not is_number, int(word) if is_number else 0, word


def _run(one: ScoreFile) -> tuple[int, int]:
    return one.repeat, one.seed


def _check_complete(found: Sequence[ScoreFile]) -> None:
    """Raise if a repeat of a method is missing, or there twice."""
    for protocol in dict.fromkeys(one.protocol for one in found):
        here = [one for one in found if one.protocol == protocol]
        counts = Counter((one.method, *_run(one)) for one in here)
        for one in here:
            if counts[one.method, *_run(one)] > 1:
                twice = [
                    o for o in here if (o.method, *_run(o)) == (one.method, *_run(one))
                ]
                msg = _check.must(
                    "one file per method and repeat",
                    caller="score_files.find",
                    name="SCORES",
                    got=f"{' and '.join(str(o.path) for o in twice)}, both {one}",
                )
                raise ValueError(msg)
        for method in dict.fromkeys(one.method for one in here):
            missing = [one for one in here if (method, *_run(one)) not in counts]
            if missing:
                lacks = ScoreFile(
                    path=Path(),
                    method=method,
                    protocol=protocol,
                    fields=missing[0].fields,
                )
                msg = _check.must(
                    "of the same repeats for every method",
                    caller="score_files.find",
                    name="SCORES",
                    got=f"no file of {lacks}, but {missing[0].path}",
                    remedy="Add the missing file, or choose others by the pattern",
                )
                raise ValueError(msg)
