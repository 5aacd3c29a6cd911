"""`openset extract`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import openset
from openset import _io
from openset.cli.options import Backend, Root, pixels_of, refuse, run_shards
from openset.cli.terminal import say, warn
from openset.datasets import image_lists

SHARDS = (".tar", ".npy")
FEW = 3  # names in a sentence


def command(
    network: Annotated[str, typer.Argument(metavar="NETWORK")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    out: Annotated[str, typer.Option("--out", "-o")] = "outputs.npz",
    part: str = "",
    root: Root = None,
    weights: Path | None = None,
    classes: Path | None = None,
    head: Path | None = None,
    fit_head: Path | None = None,
    pixels: str = "",
    unknown: Annotated[bool, typer.Option("--unknown")] = False,
    image_list: Annotated[str | None, typer.Option("--list")] = None,
    step: str | None = None,
    layers: str = "",
    invalid: Literal["error", "keep"] = "error",
    batch_size: int | None = None,
    device: str | None = None,
    jobs: int = -1,
    backend: Backend = "loky",
    plugin: list[str] | None = None,
) -> None:
    """Run a trained network on data and save its outputs.

    Samples of classes it was trained on (matched by name) get their labels, all others
    -1; groups are the class names. Images without class folders have no labels and form
    one group. For a folder of shards, --out gets one .npz file per shard, as soon as
    the shard is finished; the same command continues a run.

        openset extract runs/openauc svhn --part test --out svhn-outputs.npz
        openset extract timm:resnet50 photos/ --classes names.txt --out photos.npz
        openset extract hf:my-classifier/ mails.txt --unknown --out mails.npz
        openset extract hf:embedder/ train.csv --fit-head head.npz --out train.npz
        openset extract hf:embedder/ test.csv --head head.npz --out test.npz
        openset extract timm:resnet50 photos/ --layers layer2,layer3,layer4
        openset extract model.onnx images/ --pixels side=224,mean=0.5,0.5,0.5
        openset extract timm:resnet50 images/ --list test_ninco.txt --out near.npz
        openset extract runs/openauc tars/ --out outputs/ --jobs 4 --invalid keep

    Parameters
    ----------
    network
        A folder of openset train; an ONNX file; timm:NAME or hf:NAME (a model of the
        Hugging Face hub, or its folder); package.module:name.
    data
        A folder of images (with or without a folder per class), a .npy or .npz file, a
        .txt file with a text per line, a .csv file with the columns text and label, or
        the name of a data set. Or shards: a folder of .tar files of images (WebDataset)
        or .npy files, or its URL (s3://bucket/tars).
    out
        File to write; for shards, a folder or a URL.
    part
        Part of the data set, such as test (default: all parts).
    classes
        Names of the network's classes, one per line, in the order of its outputs. For a
        model like CLIP: the classes to choose from.
    fit_head
        Fit a last layer on these data by logistic regression, write it to this .npz and
        use it: for an embedding model, which has none, or in place of the network's
        last layer. Use training samples.
    unknown
        Label all samples -1: they belong to no known class.
    image_list
        Take only the images of this list: lines of a path in the folder DATA, a space,
        and the number of a class or -1, as in OpenOOD's benchmark_imglist. Or a list by
        name: openood:cifar10/near/tin.
    step
        Change each input before the network runs, as ODIN does:
        odin:temperature=1000,epsilon=0.0014 (epsilon for pixels in [0, 1]).
    layers
        Save the features of these layers, with commas between them, instead of the last
        layer's; list: print all names.
    invalid
        Damaged images, and samples for which the network returns NaN: stop, or keep
        rows of NaN, which openset predict --invalid reject answers with unknown.
    batch_size
        Samples per batch (default: 8 on a CPU, else 64).
    device
        Where to run, e.g. cuda or cpu.
    """
    lines = classes.read_text("utf-8").splitlines() if classes else []
    how: dict[str, Any] = {
        "weights": weights,
        "classes": tuple(filter(str.strip, lines)),
        "head": head and str(head.resolve()),
        "plugins": tuple(plugin or ()),
        **pixels_of(pixels),
    }
    if Path(network).exists():  # workers may have another current folder
        network = str(Path(network).resolve())
    if layers == "list":
        for name, kind in openset.extract.load(network, **how).layers.items():
            say(f"{name}  {kind}")
        return
    run: dict[str, Any] = {
        "step": openset.extract.Odin.of(step) if step else None,
        "layers": tuple(one.strip() for one in layers.split(",")) if layers else (),
        "unknown": unknown,
        "invalid": invalid,
        "batch_size": batch_size,
        "device": device,
    }
    if image_list is None and _is_of_shards(data):
        refuse(Path(out).suffix, "--out must be a folder for a folder of shards")
        refuse(part or fit_head, "--part and --fit-head are not for a folder of shards")
        found = openset.shards.find(data, endings=SHARDS)
        job = openset.shards.Extract(network, tuple(how.items()), tuple(run.items()))
        run_shards(job, found, out, jobs=jobs, backend=backend)
        return
    refuse(Path(out).suffix not in {"", ".npz"}, "--out must be .npz, or a folder")
    chosen = None if image_list is None else _list(image_list)
    opened = openset.extract.load(network, **how)
    if fit_head:
        opened = opened.without_head()
    outputs = openset.extract.run(
        opened, data, part=part, root=root, image_list=chosen, **run
    )
    if fit_head:
        layer = openset.extract.LinearHead.fit(outputs, outputs.classes)
        layer.save(fit_head)
        outputs = layer.applied(outputs)
        text = f"last layer for {len(layer.bias)} classes → {fit_head}"
        say(f"{text}. For other data: --head {fit_head}")
    outputs.save(out)
    say(f"{len(outputs)} samples → {out}")
    _say_what(outputs, are_given=unknown or chosen is not None)


def _is_of_shards(data: str) -> bool:
    path = Path(data)
    found = {one.suffix for one in path.iterdir()} if path.is_dir() else set()
    return _io.is_url(data) or (bool(found) and found <= set(SHARDS))


def _list(text: str) -> Any:
    """Read a list: a file, or one of a benchmark by name."""
    name, _, part = text.partition("/")
    if not Path(text).exists() and ":" in name and name in openset.bench.named.names():
        found = openset.bench.named.load(name).images(part)
        return image_lists.of_unknown(text, found)
    return image_lists.read(text)


def _say_what(outputs: Any, *, are_given: bool) -> None:
    """Say which samples are invalid, known and unknown, and how many are right."""
    invalid, n = outputs.is_invalid, len(outputs)
    if invalid.any():
        row = int(invalid.argmax())
        first = f"row {row}" if outputs.ids is None else outputs.ids[row]
        warn(
            f"invalid: {invalid.sum()} of {n} samples (a damaged image, or NaN from "
            f"the network) are kept as rows of NaN; the first: {first}"
        )
    if outputs.input_step:
        say(f"inputs perturbed by {outputs.input_step}")
    if outputs.logits is None:
        say(
            "An embedding model: the outputs have features and no logits. Fit a last "
            "layer on training samples with --fit-head head.npz"
        )
    elif outputs.labels is not None:
        known = outputs.labels >= 0
        if (known & ~invalid).any():
            valid = outputs.take(known & ~invalid)
            accuracy = (valid.logits.argmax(1) == valid.labels).mean()
            of_valid = " of the valid ones" * bool(len(valid) < known.sum())
            text = f"{known.sum()} samples of known classes, accuracy{of_valid}"
            say(f"{text} {accuracy:.4f}")
        if not are_given and not known.all():
            _say_unknown(outputs)


def _say_unknown(outputs: Any) -> None:
    """Say which samples are labelled -1: the name of a class may be misspelt."""
    unknown = outputs.labels < 0
    text = f"{unknown.sum()} samples labelled -1 (unknown)"
    if not unknown.all():
        groups = () if outputs.groups is None else outputs.groups[unknown].tolist()
        said = f", of {_few(sorted(set(groups)))}" * bool(groups)
        used = set(outputs.labels.tolist())
        unused = [name for i, name in enumerate(outputs.classes) if i not in used]
        say(text + said + f". Classes without samples: {_few(unused)}" * bool(unused))
        return
    why = "The network does not name its classes"
    if outputs.classes:
        why = f"No label is a class of the network ({_few(outputs.classes)})"
    say(
        f"{why}, so all samples are labelled -1 (unknown). If that is wrong, give the "
        "names of its classes as the data spell them: --classes FILE"
    )


def _few(names: Any) -> str:
    return ", ".join(names[:FEW]) + ", …" * (len(names) > FEW)
