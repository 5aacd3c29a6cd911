"""`openset extract`."""

from pathlib import Path
from typing import Annotated, cast, get_args

import numpy as np
import typer
from rich.markup import escape

from openset import _check
from openset._types import UNKNOWN
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Plugins
from openset.cli._extract_invalid import ANSWER, mentioning_option, say_invalid
from openset.cli._extract_lists import read_list
from openset.cli._extract_network import Network
from openset.cli._extract_report import (
    print_features,
    print_input_step,
    print_labels,
    print_layers,
)
from openset.cli._extract_samples import (
    check_data,
    check_part,
    lines,
    listed_samples,
    read_samples,
    sample_names,
)
from openset.cli._extract_shards import Extract, input_shards
from openset.cli._extract_step import Wanted
from openset.cli._options import (
    Head,
    Mean,
    Root,
    Side,
    Std,
    Weights,
    naming,
    need_root,
    numbers,
)
from openset.cli._shards import (
    SHARD_OPTIONS,
    Address,
    Backend,
    Jobs,
    backend_options,
    need_folder,
    refuse,
    run_shards,
)
from openset.detectors.layered import GRAM
from openset.outputs import Invalid, Outputs

EPILOG = """[bold]Examples[/bold]

openset extract runs/openauc new-images/ --out new-outputs.npz

openset extract runs/openauc svhn --part test --out svhn-outputs.npz

openset extract timm:resnet50 photos/ --classes names.txt --out photos.npz

openset extract hf:my-classifier/ mails.txt --unknown --out mails.npz

openset extract hf:embedder/ train.csv --fit-head head.npz --out train.npz

openset extract hf:embedder/ test.csv --head head.npz --out test.npz

openset extract hf:clip-folder/ photos/ --classes names.txt \\
    --prompts prompts.txt --out photos.npz

openset extract timm:resnet50 photos/ --odin temperature=1000,epsilon=0.0014

openset extract timm:resnet50 photos/ --layers layer2,layer3,layer4

openset extract timm:resnet50 val/ --detector layered:epsilon=0.0014 \\
    --train train.npz --out val.npz

openset extract timm:resnet50 new/ --rejector rejector/ --out new.npz

openset extract model.onnx images/ --side 224 --mean 0.485,0.456,0.406 \\
    --std 0.229,0.224,0.225 --out outputs.npz

openset extract timm:resnet50 images/ --list test_ninco.txt --out near.npz

openset extract runs/openauc tars/ --out outputs/ --jobs 4 --invalid keep

openset predict rejector/ new-outputs.npz"""

_CALLER = "openset extract"
_OUT = "outputs.npz"
_LIST = "list"

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "name": "DATA",
    "head": "--head",
    "layers": "--layers",
    "device": "--device",
    "pooling": "--pooling",
    "weights": "--weights",
    "root": "--root",
    "plugins": "--plugin",
    "input_step": "input_step of --rejector",
    **SHARD_OPTIONS,
}


@naming("openset extract", _OPTIONS)
def command(
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK",
            help="A folder written by openset train; timm:NAME, torchvision:NAME or "
            "hf:NAME (a model of the Hugging Face hub, or its folder); an ONNX file; "
            "package.module:name.",
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images (with or without a folder per class), a .npy or "
            ".npz file, a .txt file with a text per line, a .csv file with the columns "
            "text and label, or the name of a data set. Or shards: a folder of .tar "
            "files of images (WebDataset) or .npy files, or its URL (s3://bucket/tars).",
        ),
    ],
    part: Annotated[
        str,
        typer.Option(help="Part of the data set, such as test (default: all parts)."),
    ] = "",
    root: Root = None,
    place: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="File to write; for shards, a folder or a URL.",
        ),
    ] = _OUT,
    weights: Weights = None,
    classes: Annotated[
        Path | None,
        typer.Option(
            help="A text file with the names of the network's classes, one per line, "
            "in the order of its outputs, for networks that come without names. For "
            "a model like CLIP: the classes to choose from."
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="For a model like CLIP: a text file with one prompt per line, with {} "
            "in place of the class; their embeddings are averaged (default: the "
            "prompt 'a photo of a {}.')."
        ),
    ] = None,
    head: Head = None,
    fit_head: Annotated[
        Path | None,
        typer.Option(
            "--fit-head",
            metavar="FILE.npz",
            help="Fit a last layer on these data by logistic regression, write it to "
            "this file and use it: for an embedding model, which has none, or in "
            "place of the network's last layer. Use training samples.",
        ),
    ] = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            help="For an embedding model: mean (of the tokens) or cls, the first one "
            "(default: as its folder states, else mean)."
        ),
    ] = None,
    side: Side = None,
    mean: Mean = "0,0,0",
    std: Std = "1,1,1",
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
            metavar="FILE.txt",
            help="Take only the images of this list, with its labels. Each line is a "
            "path relative to the folder DATA, a space, and a number of a class or -1, "
            "as in OpenOOD's benchmark_imglist. Or a list of a benchmark by name: "
            "openood:cifar10/near/tin.",
        ),
    ] = None,
    odin: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Apply ODIN: before the network runs, change each input by epsilon "
            "in the direction that raises its largest probability, such as "
            "temperature=1000,epsilon=0.0014 (epsilon for pixels in [0, 1]). For "
            "images and tables, and networks in PyTorch.",
        ),
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            "--detector",
            "-d",
            metavar="NAME:...",
            help="Before the network runs, change each input by epsilon in the "
            "direction that raises the score of this detector over layers, such as "
            "layered:epsilon=0.0014 (epsilon for pixels in [0, 1]). It is fitted on "
            "--train. Calibrate with the same --detector and --train.",
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            help="For --detector: outputs of training samples, extracted with --layers "
            "and without --odin or --detector."
        ),
    ] = None,
    rejector: Annotated[
        str | None,
        typer.Option(
            help="Extract what this rejector needs: the same layers, and inputs "
            "changed in the same way, as in its calibration. A folder or URL.",
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Save the features of these layers, side by side, instead of the "
            "last layer's, for --detector layered. --layers list prints all names "
            "and exits.",
        ),
    ] = None,
    gram: Annotated[
        bool,
        typer.Option(
            "--gram",
            help="With --layers: save the row sums of Gram matrices instead of the "
            "channel means, for --detector gram.",
        ),
    ] = False,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Number of samples per batch (default: 8 on a CPU, else 64)."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to run, e.g. cuda or cpu.")
    ] = None,
    invalid: Annotated[
        str,
        typer.Option(
            help="Samples whose image is damaged, or for which the network returns "
            "NaN: error (nothing is written), or keep (they get rows of NaN, which "
            "openset predict --invalid reject answers with unknown).",
        ),
    ] = "error",
    jobs: Jobs = None,
    backend: Backend = None,
    address: Address = None,
    plugin: Plugins = None,
) -> None:
    """Run a trained network on data and save its outputs.

    Samples of classes it was trained on (matched by name) get their labels, all others
    -1; groups are the class names. A folder of images without subfolders, and a .npy
    file, have no labels; such images form one group, named after the folder. The
    outputs hold the names of image files, or the beginnings of texts, which openset
    predict shows. Labels of a --list are taken as they are: they number the network's
    outputs. Its groups are the classes and, for -1, the name of the list. Outputs also
    record how inputs were changed (--odin, --detector): a rejector refuses outputs
    whose inputs were not changed as in its calibration.

    For a folder of shards, --out gets one .npz file of outputs per shard, as soon as
    the shard is finished. Run the same command again to continue.
    """
    need_root(_CALLER, root)
    _check.one_of(_CALLER, "--invalid", invalid, get_args(Invalid))
    for option, number in (("--side", side), ("--batch-size", batch_size)):
        if number is not None:
            _check.positive_int(_CALLER, option, number)
    settings = Network(
        # Workers may have another current folder.
        name=str(Path(network).resolve()) if Path(network).exists() else network,
        weights=weights,
        classes=tuple(lines(classes)) if classes else None,
        prompts=tuple(lines(prompts)) if prompts else None,
        head=head.resolve() if head else None,
        pooling=pooling,
        side=side,
        mean=numbers(_CALLER, "--mean", mean),
        std=numbers(_CALLER, "--std", std),
        batch_size=batch_size,
        device=device,
        plugins=tuple(plugin or ()),
        layers=_layer_names(layers, gram=gram, fit_head=fit_head),
    )
    settings.check(fit_head=fit_head)
    wanted = Wanted(
        odin=odin,
        detector=detector,
        train=train.resolve() if train else None,
        rejector=_resolved(rejector),
    )
    wanted.check(layers=layers, fit_head=fit_head)
    check_data(data)
    if layers == _LIST:
        print_layers(settings)
        return
    chosen = read_list(image_list, data) if image_list is not None else None
    listed = input_shards(data) if chosen is None else []
    if listed:
        _check_shards(part, fit_head)
        folder = need_folder(_CALLER, None if place == _OUT else place)
        how_invalid = cast(Invalid, invalid)
        job = Extract(settings, unknown=unknown, wanted=wanted, invalid=how_invalid)
        gpus = 1 if device is not None and device.startswith("cuda") else 0
        options = backend_options(_CALLER, backend=backend, address=address, jobs=jobs)
        run_shards(job, listed, folder, gpus=gpus, invalid_are=ANSWER, **options)
        return
    refuse(_CALLER, jobs=jobs, backend=backend, address=address)
    out = Path(place)
    if out.suffix not in {"", ".npz"}:
        rule = "a .npz file, or a folder"
        raise ValueError(_check.must(rule, caller=_CALLER, name="--out", got=place))
    loaded = settings.load(fit_head=fit_head is not None)
    if loaded.note:
        ERRORS.print(f"[yellow]{escape(loaded.note)}[/yellow]")
    how = wanted.load(settings.plugins)
    if chosen is None:
        samples = read_samples(
            data, part, root, loaded.classes, names_classes=loaded.embeds
        )
    else:
        samples = listed_samples(chosen, part, loaded, unknown=unknown)
    labels = np.full(len(samples.inputs), UNKNOWN) if unknown else samples.labels
    ids = sample_names(samples.inputs, Path(data))
    with naming(_CALLER, {"step": wanted.option}), mentioning_option(ids):
        outputs = loaded.apply(
            samples.inputs,
            labels=labels,
            groups=samples.groups,
            ids=ids,
            invalid=invalid,
            **how,
        )
    if fit_head:
        outputs = _fit_head(outputs, samples.classes, fit_head)
    outputs.save(out)
    OUT.say(f"{len(outputs)} samples → {escape(str(out))}")
    say_invalid(outputs)
    is_given = unknown or chosen is not None
    print_labels(outputs, samples.classes, labels_are_given=is_given)
    if settings.layers:
        print_features(outputs, gram=gram)
    step = how["step"] if odin is not None else None
    print_input_step(outputs, odin=step, detector=detector, train=train)


def _resolved(place: str | None) -> str | None:
    """Return the place of a rejector, as workers in other folders find it."""
    if place is None or not Path(place).exists():
        return place
    return str(Path(place).resolve())


def _layer_names(
    text: str | None, *, gram: bool, fit_head: Path | None
) -> tuple[str, ...]:
    """Read the names of layers; those for Gram matrices are marked."""
    if text is None and gram:
        rule, got = "given, for --gram", "none"
        raise ValueError(_check.must(rule, caller=_CALLER, name="--layers", got=got))
    if text is None or text == _LIST:
        return ()
    if fit_head is not None:
        rule = "left out with --layers"
        msg = _check.must(rule, caller=_CALLER, name="--fit-head", got=fit_head)
        raise ValueError(msg)
    names = [one.strip() for one in text.split(",")]
    return tuple(f"{GRAM}{name}" if gram else name for name in names)


def _fit_head(outputs: Outputs, classes: tuple[str, ...], path: Path) -> Outputs:
    """Fit a last layer on embeddings, and save it."""
    from openset.integrations.networks import LinearHead  # noqa: PLC0415  # torch

    if outputs.labels is None:
        msg = _check.must(
            "samples with labels, for --fit-head",
            caller=_CALLER,
            name="DATA",
            got="none",
            remedy="Give a folder per class, or a .csv file with text and label",
        )
        raise ValueError(msg)
    head = LinearHead.fit(outputs.take(~outputs.is_invalid), classes)
    head.save(path)
    text = f"last layer for {len(classes)} classes → {path}. For other data: --head "
    OUT.say(escape(f"{text}{path}"))
    return head.applied(outputs)


def _check_shards(part: str, fit_head: Path | None) -> None:
    """Refuse options that a folder of shards has no use for."""
    check_part(part, {})
    if fit_head:
        rule = "left out for shards"
        msg = _check.must(rule, caller=_CALLER, name="--fit-head", got=fit_head)
        raise ValueError(msg)
