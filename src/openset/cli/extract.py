"""`openset extract`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape

import openset
from openset import _check, _io, shards
from openset._types import UNKNOWN
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Plugins
from openset.cli._errors_in_options import Head, Root, Weights
from openset.cli._shards import (
    Backend,
    Jobs,
    backend_options,
    need_folder,
    refuse,
    run_shards,
)
from openset.datasets import image_lists
from openset.outputs import Outputs

EPILOG = """[bold]Examples[/bold]

openset extract runs/openauc svhn --part test --out svhn-outputs.npz

openset extract timm:resnet50 photos/ --classes names.txt --out photos.npz

openset extract hf:my-classifier/ mails.txt --unknown --out mails.npz

openset extract hf:embedder/ train.csv --fit-head head.npz --out train.npz

openset extract hf:embedder/ test.csv --head head.npz --out test.npz

openset extract hf:clip-folder/ photos/ --classes names.txt --out photos.npz

openset extract timm:resnet50 photos/ --step odin:temperature=1000,epsilon=0.0014

openset extract timm:resnet50 photos/ --layers layer2,layer3,layer4

openset extract model.onnx images/ --side 224 --mean 0.485,0.456,0.406 \\
    --std 0.229,0.224,0.225 --out outputs.npz

openset extract timm:resnet50 images/ --list test_ninco.txt --out near.npz

openset extract runs/openauc tars/ --out outputs/ --jobs 4 --invalid keep"""

_CALLER = "openset extract"
_OUT = "outputs.npz"
_KEPT = "kept as rows of NaN, which openset predict --invalid reject answers"
_SHOWN = 3  # names in a message


def _numbers(text: str) -> Any:  # None, if the option is not given
    return tuple(float(one) for one in text.split(","))


def command(
    network: Annotated[
        str,
        typer.Argument(
            help="A folder of openset train; timm:NAME or hf:NAME (a "
            "model of the Hugging Face hub, or its folder); an ONNX file; "
            "package.module:name.",
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of images (with or without a folder per class), a .npy or "
            ".npz file, a .txt file with a text per line, a .csv file with the columns "
            "text and label, or the name of a data set. Or shards: a folder of .tar "
            "files of images (WebDataset) or .npy files, or its URL (s3://bucket/tars).",
        ),
    ],
    place: Annotated[
        str,
        typer.Option(
            "--out", "-o", help="File to write; for shards, a folder or a URL."
        ),
    ] = _OUT,
    part: Annotated[
        str,
        typer.Option(help="Part of the data set, such as test (default: all parts)."),
    ] = "",
    root: Root = None,
    weights: Weights = None,
    classes: Annotated[
        Path | None,
        typer.Option(
            help="Names of the network's classes, one per line, in the order of its "
            "outputs. For a model like CLIP: the classes to choose from."
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="For a model like CLIP: prompts, one per line, with {} in place of "
            "the class (default: 'a photo of a {}.')."
        ),
    ] = None,
    head: Head = None,
    fit_head: Annotated[
        Path | None,
        typer.Option(
            help="Fit a last layer on these data by logistic regression, write it to "
            "this .npz and use it: for an embedding model, which has none, or in place "
            "of the network's last layer. Use training samples.",
        ),
    ] = None,
    side: Annotated[
        int | None,
        typer.Option(help="ONNX, own modules: height and width of the images."),
    ] = None,
    mean: Annotated[
        Any | None,
        typer.Option(
            parser=_numbers,
            metavar="NUMBER,...",
            help="ONNX, own modules: mean of each channel, for pixels in [0, 1].",
        ),
    ] = None,
    std: Annotated[
        Any | None,
        typer.Option(
            parser=_numbers,
            metavar="NUMBER,...",
            help="ONNX, own modules: standard deviation of each channel.",
        ),
    ] = None,
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown", help="Label all samples -1: they belong to no known class."
        ),
    ] = False,
    image_list: Annotated[
        str | None,
        typer.Option(
            "--list",
            help="Take only the images of this list, with its labels: lines of a path "
            "relative to the folder DATA, a space, and a number of a class or -1, as "
            "in OpenOOD's benchmark_imglist. Or a list of a benchmark by name: "
            "openood:cifar10/near/tin.",
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            help="Change each input before the network runs, as ODIN does: "
            "odin:temperature=1000,epsilon=0.0014 (epsilon for pixels in [0, 1])."
        ),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            help="Save the features of these layers, with commas between them, instead "
            "of the last layer's; list: print all names."
        ),
    ] = "",
    invalid: Annotated[
        Literal["error", "keep"],
        typer.Option(
            help="Samples whose image is damaged, or for which the network returns "
            "NaN: stop, or keep rows of NaN, which openset predict --invalid reject "
            "answers with unknown.",
        ),
    ] = "error",
    batch_size: Annotated[
        int | None,
        typer.Option(help="Samples per batch (default: 8 on a CPU, else 64)."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to run, e.g. cuda or cpu.")
    ] = None,
    jobs: Jobs = None,
    backend: Backend = None,
    plugin: Plugins = None,
) -> None:
    """Run a trained network on data and save its outputs.

    Samples of classes it was trained on (matched by name) get their labels, all others
    -1; groups are the class names. Images without class folders have no labels and form
    one group. Outputs also record how inputs were changed (--step): a rejector refuses
    outputs whose inputs were not changed as in its calibration.

    For a folder of shards, --out gets one .npz file of outputs per shard, as soon as
    the shard is finished. Run the same command again to continue.
    """
    how: dict[str, Any] = {
        "weights": weights,
        "classes": _lines(classes),
        "prompts": _lines(prompts),
        "head": head and str(head.resolve()),
        "side": side,
        "mean": mean,
        "std": std,
        "plugins": tuple(plugin or ()),
    }
    if Path(network).exists():  # workers may have another current folder
        network = str(Path(network).resolve())
    if layers == "list":
        for name, kind in openset.extract.load(network, **how).layers.items():
            OUT.say(escape(f"{name}  {kind}"))
        return
    run: dict[str, Any] = {
        "step": openset.extract.Odin.of(step) if step else None,
        "layers": tuple(one.strip() for one in layers.split(",")) if layers else (),
        "unknown": unknown,
        "invalid": invalid,
        "batch_size": batch_size,
        "device": device,
    }
    found = {} if image_list else _shards(data)
    if found:
        out = need_folder(_CALLER, None if place == _OUT else place)
        options = backend_options(_CALLER, backend=backend, jobs=jobs)
        options["n_gpus"] = int(str(device).startswith("cuda"))
        job = Extract(network, tuple(how.items()), tuple(run.items()))
        run_shards(job, found, out, invalid_are=_KEPT, **options)
        return
    refuse(_CALLER, jobs=jobs, backend=backend)
    if Path(place).suffix not in {"", ".npz"}:
        _check.fail(_CALLER, "--out", "a .npz file, or a folder", place)
    openset.extract.check_data(data)
    chosen = None if image_list is None else _list(image_list)
    if chosen is not None:
        chosen.files(data)  # refused before the network is loaded
    opened = openset.extract.load(network, **how)
    if opened.note:
        ERRORS.print(f"[yellow]{escape(f'{opened.name}: {opened.note}')}[/yellow]")
    if fit_head:
        opened = opened.without_head()
    outputs = openset.extract.run(
        opened, data, part=part, root=root, image_list=chosen, **run
    )
    if fit_head:
        layer = openset.extract.LinearHead.fit(outputs, outputs.classes)
        layer.save(fit_head)
        outputs = layer.applied(outputs)
        text = f"last layer for {len(layer.bias)} classes → {fit_head}. For other data"
        OUT.say(escape(f"{text}: --head {fit_head}"))
    outputs.save(place)
    OUT.say(escape(f"{len(outputs)} samples → {place}"))
    _say_invalid(outputs)
    _say_labels(outputs, are_given=unknown or chosen is not None)
    if outputs.input_step:
        OUT.say(escape(f"inputs perturbed by {outputs.input_step}"))


def _lines(path: Path | None) -> tuple[str, ...]:
    text = "" if path is None else path.read_text("utf-8")
    return tuple(line for line in text.splitlines() if line.strip())


def _list(text: str) -> image_lists.ImageList:
    """Read a list: a file, or one of a benchmark by name."""
    name, slash, part = text.partition("/")
    if not Path(text).exists() and slash and ":" in name:
        from openset.bench import named  # noqa: PLC0415  # the extra may be missing

        if name in named.names():
            return image_lists.of_unknown(text, named.load(name).images(part))
    return image_lists.read(text)


def _first_invalid(outputs: Outputs) -> dict[str, Any]:
    """Return the number of invalid samples, and row and id of the first; or nothing."""
    rows = np.flatnonzero(outputs.is_invalid)
    if not rows.size:
        return {}
    found: dict[str, Any] = {"n": int(rows.size), "row": int(rows[0])}
    return found | ({} if outputs.ids is None else {"id": str(outputs.ids[rows[0]])})


def _say_invalid(outputs: Outputs) -> None:
    found = _first_invalid(outputs)
    if found:
        name = f", {found['id']}" if "id" in found else ""
        text = (
            f"{found['n']} of {len(outputs)} samples are invalid (a damaged image, or "
            f"NaN from the network) and {_KEPT}; the first: row {found['row']}{name}"
        )
        ERRORS.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")


def _say_labels(outputs: Outputs, *, are_given: bool) -> None:
    """Say how many samples are of known classes, and how many of these are right."""
    if outputs.logits is None:
        OUT.say(
            "An embedding model: the outputs have features and no logits. Fit a last "
            "layer on training samples with --fit-head head.npz"
        )
    if outputs.logits is None or outputs.labels is None:
        return
    known, is_known = outputs.classes, np.asarray(outputs.labels) != UNKNOWN
    if is_known.any():
        valid = is_known & ~outputs.is_invalid
        right = np.argmax(outputs.logits, axis=1) == outputs.labels
        accuracy = f"{right[valid].mean():.4f}" if valid.any() else "-"
        rest = "" if (valid == is_known).all() else " without the invalid ones"
        OUT.say(f"{is_known.sum()} samples of known classes, accuracy {accuracy}{rest}")
    if are_given or is_known.all():
        return
    if is_known.any():  # a class may be misspelt
        line = f"{(~is_known).sum()} samples labelled -1 (unknown)"
        if outputs.groups is not None:
            line += f", of {_listed(np.unique(outputs.groups[~is_known]).tolist())}"
        used = set(outputs.labels[is_known].tolist())
        unused = [name for i, name in enumerate(known) if i not in used]
        line += f". Classes without samples: {_listed(unused)}" if unused else ""
    else:
        line = "The network does not name its classes"
        if known:
            line = f"No label is a class of the network ({_listed(known)})"
        line += (
            ", so all samples are labelled -1 (unknown). If that is wrong, give the "
            "names of its classes as the data spell them: --classes FILE"
        )
    OUT.say(escape(line))


def _listed(names: Any) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _shards(data: str) -> dict[str, str]:
    """Return the shards of a folder, or URL, of .tar or .npy files; else none."""
    endings = (".tar", ".npy")
    if not _io.is_url(data):
        path = Path(data)
        found = {one.suffix for one in path.iterdir()} if path.is_dir() else set()
        if not found or found - {*endings}:
            return {}
    return shards.find(data, endings=endings)


@dataclass(frozen=True)
class Extract:
    """Run a network on every shard; a shard gives a .npz of outputs.

    A finished shard has the same outputs with ``invalid="keep"`` and without it: a run
    may go on with the other.
    """

    network: str
    how: tuple[tuple[str, Any], ...] = ()
    run: tuple[tuple[str, Any], ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """What the outputs depend on."""
        kept = {**dict(self.how), **dict(self.run)}
        head = kept.pop("head", None)
        options = {k: repr(one) for k, one in kept.items() if k not in _NO_MATTER}
        paths = [Path(self.network) / "trained.json", Path(self.network)]
        paths += [Path(head)] if head else []
        files = [_io.sha256(path) for path in paths if path.is_file()]
        name = {"kind": "extract", "network": self.network}
        return {**name, **options, "files": files}

    def files(self, name: str) -> list[str]:
        """Return the file of a shard."""
        return [f"{name}.npz"]

    def load(self) -> Any:
        """Load the network."""
        return openset.extract.load(self.network, **dict(self.how))

    def do(self, loaded: Any, shard: Path, results: list[Path]) -> int:
        """Write the outputs of a shard."""
        run = dict(self.run)
        outputs = openset.extract.run(loaded, shard, progress=False, **run)
        outputs.save(results[0])
        return int(outputs.is_invalid.sum())


_NO_MATTER = ("batch_size", "device", "invalid")
