"""Options that several commands share, and the grammar ``name:option=value,...``.

What a command is for, and what its parameters are, is said in its docstring; the
docstring of its module, and this one, speak of parameters of several commands.

Parameters
----------
as_json
    Print JSON.
root
    Folder of the data sets (default: $OPENSET_DATA, else the user's cache).
train
    Outputs of the training split, to fit the detectors on. msp, maxlogit, energy and
    gen need none.
detector
    A detector (openset detectors) or package.module:Class, with options after a colon:
    knn:k=20,bank=none. May be repeated.
plugin
    Let a saved file use this detector or training method of your own,
    package.module:Class. May be repeated.
rejector
    Folder of openset calibrate, or its URL (s3://..., https://...).
invalid
    Samples without an answer, such as those with NaN: stop with an error, or answer
    unknown and mark them.
jobs
    Number of workers; -1: one per core.
backend
    Workers: processes of this machine, or a running Ray cluster ($RAY_ADDRESS).
metric
    Only this metric; may be repeated. A metric of your own: package.module:Name.
level
    Confidence level of the intervals.
alpha
    Share of known samples you expect in operation; counts: their share in the data.
columns
    Names of the file's columns, where they differ from labels, predicted, known, groups
    and ids: known=score,labels=y. ids= ignores the ids.
unknown_label
    Label of unknown samples, a number or a name (default: -1 or unknown).
calibration
    Scores of the same detector on calibration samples: choose the threshold on them,
    and report operational open-set accuracy (OOSA).
out
    Write this file instead of printing: .json, .csv (full precision) or .tex (LaTeX, in
    percent).
higher_is_unknown
    The scores are higher for unknown samples: reverse their sign.
model
    Network to run before the rejector (default: none). A folder of openset train; an
    ONNX file; timm:NAME or hf:NAME (a model of the Hugging Face hub, or its folder);
    package.module:name.
pixels
    For ONNX files and your own modules: height and width of the images, and mean and
    standard deviation of each channel, for pixels in [0, 1], such as
    side=32,mean=0.5,0.5,0.4 or side=32,mean=0.5,std=0.2.
weights
    For timm: a file of weights (.safetensors, .pth; default: the published ones).
head
    Last layer to use, from a file (.npz) that openset extract --fit-head writes.
"""

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

import openset
from openset import _check
from openset.cli.terminal import ERR, say, warn

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json")]
Out = Annotated[Path | None, typer.Option("--out", "-o")]
Root = Annotated[Path | None, typer.Option(exists=True, file_okay=False)]
Detectors = Annotated[list[str] | None, typer.Option("--detector", "-d")]
Invalid = Literal["error", "reject"]
Backend = Literal["loky", "ray"]


class _Documented:
    """What has a docstring that says what it is for, and what its parameters are."""

    def __init__(self, *args: Any, help: str = "", **settings: Any) -> None:  # noqa: A002
        about, own = described(help)
        super().__init__(*args, help=about, **settings)  # type: ignore[call-arg]
        module = import_module(settings["callback"].__module__)
        said = described(__doc__ or "")[1] | described(module.__doc__ or "")[1] | own
        for param in self.params:  # type: ignore[attr-defined]
            param.help = param.help or said.get(param.name)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options; flags without a type: ``--json <bool>``."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Group(_Documented, TyperGroup):
    """The program, or a group of commands such as ``openset protocols``."""


class Command(_Documented, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option that takes one value but is given two: one would be lost."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for param in given:
            many = getattr(param, "multiple", True) or getattr(param, "is_flag", True)
            is_lost = given.count(param) > 1 and not many
            refuse(is_lost, f"{param.opts[0]} may be given once")
        return super().parse_args(ctx, args)


def described(docstring: str) -> tuple[str, dict[str, str]]:
    r"""Split a docstring into what precedes its parameters, and the text of each.

    Indented lines, the examples, are fenced: typer removes indentation.

    Examples
    --------
    >>> described("Add.\n\nParameters\n----------\na\n    The\n    first.\nb\n    One.")
    ('Add.', {'a': 'The first.', 'b': 'One.'})
    """
    text = inspect.cleandoc(docstring)
    about, _, listed = text.partition("\n\nParameters\n----------\n")
    _, *parts = re.split(r"^(\w+)\n", listed, flags=re.MULTILINE)
    texts = (" ".join(part.split()) for part in parts[1::2])
    about = re.sub(
        r"(?m)(^    .*\n?)+", lambda of: f"```\n{dedent(of[0])}\n```\n", about
    )
    return about, dict(zip(parts[::2], texts, strict=True))


def spec(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``name:option=value,...``; the name may be ``package.module:Class``.

    Examples
    --------
    >>> spec("knn:k=5,bank=none"), spec("my.module:Margin"), spec("m:C:a=0.5")
    (('knn', {'k': 5, 'bank': None}), ('my.module:Margin', {}), ('m:C', {'a': 0.5}))
    """
    name, *rest = re.split(r":(?=\w+=)", text, maxsplit=1)
    return name, settings(rest)


def settings(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``option=value,...``; a value may have commas.

    Examples
    --------
    >>> settings(["side=5,mean=1,0.5", "x=true"]), settings([""])
    ({'side': 5, 'mean': [1, 0.5], 'x': True}, {})
    """
    found = {}
    for text in filter(None, texts):
        for pair in re.split(r",(?=\s*\w+=)", text):
            name, equals, value = pair.partition("=")
            if not (equals and name.strip()):
                _check.fail("openset", "options", "option=value,...", repr(text))
            found[name.strip()] = read(value.strip())
    return found


def read(text: str) -> Any:
    """Read a number, several with commas, true, false, none, or JSON; else text.

    Examples
    --------
    >>> [read(one) for one in ("5", ".5", "None", "[1, 2]", "3,4", "a,b")]
    [5, 0.5, None, [1, 2], [3, 4], 'a,b']
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for reader in (json.loads, float, lambda listed: json.loads(f"[{listed}]")):
        with suppress(ValueError):
            return reader(text)
    return text


def pixels_of(text: str) -> dict[str, Any]:
    """Read --pixels: a side, and numbers of one channel or several.

    Examples
    --------
    >>> pixels_of("side=32,mean=0.5,std=0.2,0.3,0.4")
    {'side': 32, 'mean': [0.5], 'std': [0.2, 0.3, 0.4]}
    """
    found = settings([text])
    of_one = {k for k in ("mean", "std") if not isinstance(found.get(k, []), list)}
    return found | {name: [found[name]] for name in of_one}


def made(texts: Iterable[str], train: object = None) -> dict[str, Any]:
    """Make detectors, by what was typed; refuse those that need training outputs."""
    found = {}
    for text in texts:
        name, options = spec(text)
        try:
            found[text] = openset.detectors.make(name, **options)
        except TypeError as error:
            taken = ", ".join(openset.detectors.options(name)) or "none"
            error.add_note(f"options of {name}: {taken}")
            raise
    learning = [text for text, one in found.items() if one.learns]
    missing = f"--train must be given for {', '.join(learning)}"
    refuse(train is None and learning, missing)
    return found


def reading(
    columns: str, unknown_label: str | None, *, higher_is_unknown: bool
) -> dict[str, Any]:
    """Return how files of scores are read, as `Scores.load` takes it."""
    pairs = (pair.partition("=") for pair in columns.split(",") if pair)
    return {
        "columns": {name.strip(): own.strip() for name, _, own in pairs},
        "unknown_label": unknown_label,
        "higher_is_unknown": higher_is_unknown,
    }


def refuse(is_wrong: object, text: str) -> None:
    """Raise an error about the options of a command."""
    if is_wrong:
        raise ValueError(text)


def need(value: T | None, text: str) -> T:
    """Return what must be given."""
    if value is None:
        raise ValueError(text)
    return value


def keep_inputs(out: Path | None, *inputs: str | Path | None) -> None:
    """Raise if the result would replace a file that it is made from."""
    if out is not None and out.exists():
        for one in inputs:
            if one is not None and Path(one).exists() and out.samefile(one):
                rule = "another file than those it is made from"
                _check.fail("openset", "--out", rule, out)


def say_step(rejector: Any) -> None:
    """Warn that a rejector without its network relies on inputs that were perturbed."""
    if rejector.input_step:
        warn(
            f"Its inputs were perturbed along a gradient in calibration "
            f"({rejector.input_step}). It cannot check that for bare arrays: send "
            "outputs of inputs perturbed the same way (openset extract --step)"
        )


def run_shards(job: Any, found: Mapping[str, str] | str, out: str, **how: Any) -> None:
    """Run a job over shards; say what was done; exit with 1 if some failed."""
    done = openset.shards.run(job, found, out, **how)
    say(done)
    for name, n in done.invalid.items():
        warn(f"invalid: {name}: {n} samples")
    for name, error in done.failed.items():
        say(f"failed: {name}: {error.splitlines()[0]}", style="red", to=ERR)
    if done.failed:
        raise typer.Exit(1)
