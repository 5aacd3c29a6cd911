"""`openset train`: its options as the library takes them, and errors in their words."""

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openset import _check, datasets
from openset._types import MissingExtraError, TrainingWarning
from openset.cli._errors_in_options import naming
from openset.datasets import Dataset

_CALLER = "openset train"
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
# Parameters of `train.fit` that are options here, by the name of the option.
_OPTIONS = {
    name: f"--{name}"
    for name in (
        *("method", "data", "protocol", "split", "seed", "recipe", "epochs", "batch"),
        *(
            "auxiliary",
            "lr",
            "network",
            "validation",
            "negatives",
            "root",
            "out",
            "devices",
            "nodes",
            "curves",
        ),
        *("accelerator", "precision"),
    )
} | {
    "compiled": "--compile",
    "pretrained": "--pretrained or --weights",
    "max_train": "--max-train",
    "log_to": "--log-to",
}


def library() -> Any:
    """Import the part of the library that needs torch."""
    try:
        from openset import train  # noqa: PLC0415  # torch takes seconds: not for --help
    except ImportError as error:
        msg = f'{_CALLER}: needs torch; install it with: pip install "openset[torch]"'
        raise MissingExtraError(msg) from error
    return train


def load_data(name: str, root: Path | None, *, option: str) -> Dataset:
    """Load a data set; errors name the option it comes from."""
    with naming(_CALLER, {"name": option}):
        return datasets.load(name, root)


def read_settings(
    texts: list[str], taken: list[str], changeable: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort NAME=VALUE into options of the method and changes of the recipe."""
    options: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for text in texts:
        name, value = _pair("--set", text, "NAME=VALUE")
        if name not in (*taken, *changeable):
            others = [one for one in changeable if one not in taken]
            msg = _check.must(
                f"an option of the method ({', '.join(taken)}) or of the recipe "
                f"({', '.join(others)})",
                caller=_CALLER,
                name="--set",
                got=repr(name),
                remedy=_check.near(name, [*taken, *changeable]),
            )
            raise ValueError(msg)
        # Some belong to both: `side` is an option of ARPL+CS's generator and of the
        # pipeline.
        if name in taken:
            options[name] = _value(value)
        if name in changeable:
            changes[name] = _value(value)
    return options, changes


def read_grid(texts: list[str], taken: list[str]) -> dict[str, list[Any]]:
    """Read the values to try of each name."""
    grid = {}
    for text in texts:
        name, values = _pair("--tune", text, "NAME=VALUE,VALUE,...")
        _check.one_of(_CALLER, "--tune", name, sorted(taken))
        grid[name] = [_value(value) for value in values.split(",")]
    return grid


def set_once(given: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """Return the options that were given; raise if --set names one of them too."""
    found = {name: value for name, value in given.items() if value is not None}
    for text in texts:
        name = text.partition("=")[0]
        if name in found:
            rule, got = f"left out with --set {text}", found[name]
            msg = _check.must(rule, caller=_CALLER, name=f"--{name}", got=got)
            raise ValueError(msg)
    return found


def _pair(flag: str, text: str, rule: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found and value):
        raise ValueError(_check.must(rule, caller=_CALLER, name=flag, got=repr(text)))
    return name, value


def _value(text: str) -> Any:
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def naming_options(set_: list[str], tune: list[str]) -> Iterator[None]:
    """Let errors of the library name the options of this command, as they were typed.

    What the library warns of is said here in the words of the command.
    """
    typed = {
        text.partition("=")[0]: flag
        for flag, texts in (("--set", set_), ("--tune", tune))
        for text in texts
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            yield
    except (ValueError, TypeError, FloatingPointError) as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (as_typed(error.args[0], typed),)
        raise


def as_typed(message: str, typed: Mapping[str, str] | None = None) -> str:
    """Write parameters of the library as options of the command.

    `typed` has the flag, --set or --tune, of the names that were given by one.

    Examples
    --------
    >>> as_typed("train.fit: accelerator must be there. Use accelerator='cpu'")
    'openset train: --accelerator must be there. Use --accelerator cpu'
    >>> as_typed("train.recipe: cycle must be left out. It needs schedule='cosine'")
    'openset train: --set cycle must be left out. It needs --set schedule=cosine'
    >>> as_typed("train.recipe: lr must be > 0, got 0", {"lr": "--tune"})
    'openset train: --tune lr must be > 0, got 0'
    """
    caller = re.match(
        r"(train(\.\w+)?|Pipeline|method \w+|protocols\.default): ", message
    )
    if caller is None:
        return message
    message = message[caller.end() :]
    settable = _settable(caller[0])

    def option(name: str, value: str = "") -> str:
        flag = (typed or {}).get(name, "")
        if name in _OPTIONS and not flag:
            return f"{_OPTIONS[name]} {value}".strip()
        return f"{flag or '--set'} {name}{'=' if value else ''}{value}"

    def assigned(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'").replace(", ", ",")
        return option(name, value) if name in settable else found[0]

    subject, must, rest = message.partition(" must be ")
    words = subject.split(" ")
    if all(word in {*settable, "times"} for word in words):
        subject = " ".join(option(w) if w in settable else w for w in words)
    value = r"('[^']*'|\[[^\]]*\]|[-+]?\w+(?:\.\w+)?(?:[-+]\d+)?|)"
    text = re.sub(rf"\b(\w+)={value}", assigned, subject + must + rest)
    return f"{_CALLER}: {text}"


def _settable(caller: str) -> set[str]:
    """Return what can be set from the command line."""
    train = library()
    names = {*_OPTIONS, *train.recipes.changeable()}
    kind, _, name = caller.rstrip(": ").partition(" ")
    if kind == "method" and name in train.methods.REGISTRY:
        names |= set(train.methods.REGISTRY[name].options())
    return names
