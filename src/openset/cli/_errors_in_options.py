"""Options that several commands share; errors of the library, in terms of options."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from openset import _check, trackers

_ERRORS = (ValueError, TypeError, FileNotFoundError, ConnectionError, ImportError)
_CALLER = re.compile(r"(openset\.)?[A-Za-z_]\w*(\.\w+)?: ")
LogTo = Annotated[
    str | None,
    typer.Option(
        help="Also log parameters and metrics to a tracker: "
        f"{', '.join(trackers.NAMES)}."
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the data sets (default: $OPENSET_DATA, else the user's cache)."
    ),
]
Workers = Annotated[int, typer.Option(help="Number of workers; -1 for one per core.")]
# Of confidence intervals.
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
Bootstrap = Annotated[
    int,
    typer.Option(
        help="Number of bootstrap resamples, for the intervals of metrics "
        "without a formula for one; 0: these metrics get no interval."
    ),
]
RejectorPlace = Annotated[
    str,
    typer.Argument(
        metavar="REJECTOR",
        help="Folder written by openset calibrate, or its URL (s3://..., https://...).",
    ),
]
# Of a network by name.
Weights = Annotated[
    str | None,
    typer.Option(
        help="For timm and torchvision: a file of weights (.safetensors, .pth). "
        "Default: the published weights, downloaded if they are not on this machine."
    ),
]
Head = Annotated[
    Path | None,
    typer.Option(
        help="Last layer to use, from a file (.npz, .safetensors, .pth) such as "
        "openset extract --fit-head writes: for an embedding model, which has none, "
        "or in place of the network's last layer."
    ),
]
# How images are prepared for a network that does not say it.
Side = Annotated[
    int | None,
    typer.Option(
        help="For ONNX files and your own modules (package.module:name): height and "
        "width of the images, in pixels (default: as the network states)."
    ),
]
Mean = Annotated[
    str,
    typer.Option(
        help="For the same networks as --side: mean of each channel, for pixels in "
        "[0, 1]."
    ),
]
Std = Annotated[
    str,
    typer.Option(
        help="For the same networks as --side: standard deviation of each channel."
    ),
]
_FILE = re.compile(r"\S+\.(npz|npy|csv|parquet|json|yaml|yml|toml|onnx|html): ")


def need_root(command: str, root: Path | None) -> None:
    """Raise unless the folder of data sets is there: a mistyped one is not created."""
    if root is not None and not root.is_dir():
        msg = _check.must(
            "a folder",
            caller=command,
            name="--root",
            got=f"{root}, which does not exist" if not root.exists() else f"{root}",
            remedy="Create the folder first if data sets are to be downloaded to it",
        )
        raise FileNotFoundError(msg)


def keep_inputs(command: str, out: Path | None, *inputs: str | Path | None) -> None:
    """Raise if the result would replace a file that it is made from."""
    if out is None or not out.exists():
        return
    for one in inputs:
        if one is not None and Path(one).exists() and out.samefile(one):
            msg = _check.must(
                "another file than those it is made from",
                caller=command,
                name="--out",
                got=str(out),
            )
            raise ValueError(msg)


@contextmanager
def naming(command: str, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let errors name the command and its options, not functions and arguments.

    Our errors read ``caller: name must be rule, got value``. The caller becomes the
    command, and a name that `options` holds becomes the option it comes from. It also
    works as a decorator of the command.

    Examples
    --------
    >>> with naming("openset draw", {"n_known": "--known"}):
    ...     raise ValueError("holdout: n_known must be >= 1, got 0. Use n_known=3")
    Traceback (most recent call last):
    ...
    ValueError: openset draw: --known must be >= 1, got 0. Use --known 3
    """
    try:
        yield
    except _ERRORS as error:
        if len(error.args) != 1 or not isinstance(error.args[0], str):
            raise
        text = in_options(error.args[0], command, options or {})
        error.args = (text,)  # its class may not be made of a text alone
        raise


def in_options(message: str, command: str, options: Mapping[str, str]) -> str:
    """Rewrite a message of the library in terms of a command and its options.

    What stands before the message stays if it says where the error is: a file, or a
    class that the user has chosen, such as a detector.

    Examples
    --------
    >>> in_options("KNN.fit: k must be at most 9, got 20", "openset score", {})
    'KNN.fit: k must be at most 9, got 20'
    >>> in_options("Scores.load: no such file: x.npz", "openset evaluate", {})
    'openset evaluate: no such file: x.npz'
    """
    file = _FILE.match(message)
    if file is not None and _CALLER.match(message, file.end()):
        return file[0] + in_options(message[file.end() :], command, options)
    caller = _caller(message, command)
    subject, must, rule = message.removeprefix(caller).partition(" must ")
    words = subject.split(" ") if must else [subject]
    named = [options.get(word, word) for word in words]
    is_class = caller[:1].isupper() and not caller.endswith(".load: ")
    if not caller or (is_class and named == words):
        return message
    names = "|".join(map(re.escape, options)) or "(?!)"
    # An argument in advice, "Use level=0.9", but not in code, "Outputs(logits=...)".
    argument = rf"(?<=[ :])({names})=('[^']*'|\[[^\]]*\]|\.\.\.|[-+\w.]*\w)"

    def option(found: re.Match[str]) -> str:
        value = re.sub(r"[\[\]']", "", found[2])
        return f"{options[found[1]]} {value}"

    if not must:
        return f"{command}: {re.sub(argument, option, subject)}"
    return f"{command}: {' '.join(named)}{must}{re.sub(argument, option, rule)}"


def _caller(message: str, command: str) -> str:
    """Return the caller a message begins with; "" if it begins with a file."""
    if message.startswith(f"{command}: "):
        return f"{command}: "
    found = _CALLER.match(message)
    if found is None or _FILE.match(message):
        return ""
    # "train: KNN.fit: ..." is a folder and a caller.
    after = _CALLER.match(message, found.end())
    is_folder = after is not None and not _FILE.match(after[0])
    return "" if is_folder else found[0]


def numbers(command: str, option: str, text: str) -> tuple[float, ...]:
    """Read the three numbers of an option, one per channel of an image.

    Examples
    --------
    >>> numbers("openset serve", "--mean", "0.5,0.5,0.25")
    (0.5, 0.5, 0.25)
    """
    try:
        values = tuple(float(one) for one in text.split(","))
    except ValueError:
        values = ()
    is_std = option == "--std"
    if len(values) != 3 or (is_std and min(values) <= 0):
        rule = f"three {'positive ' * is_std}numbers with commas between them"
        raise ValueError(_check.must(rule, caller=command, name=option, got=text))
    return values
