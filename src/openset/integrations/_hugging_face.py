"""Networks of Hugging Face: classifiers, embedding models, models like CLIP."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openset import _check, _extras
from openset.detectors import MCM
from openset.integrations import _embedding, _zero_shot
from openset.integrations._classifier import CALLER, Classifier
from openset.integrations._embedding import LinearHead
from openset.integrations._preprocessing import listed


@dataclass(frozen=True, eq=False)
class Options:
    """The other arguments of `networks.load`."""

    weights: str | Path | None
    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    head: str | Path | LinearHead | None
    pooling: str | None


def of_hugging_face(name: str, options: Options) -> Classifier:
    """Open a model by its name, or a folder of one."""
    try:
        with _without_bars():
            return _opened(name, options)
    except ModuleNotFoundError as error:
        if error.__cause__ is None:
            raise
        # Its parts are imported late; the cause says why that failed.
        with _extras.fitting(CALLER, "transformers"):
            raise error.__cause__ from None


@contextmanager
def _without_bars() -> Iterator[None]:
    """Read weights without a progress bar: a moment, and even where none can move."""
    settings = _extras.library(CALLER, "transformers.utils.logging")
    is_shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            settings.enable_progress_bar()


def _opened(name: str, options: Options) -> Classifier:
    transformers = _extras.library(CALLER, "transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        msg = (
            f"{CALLER}: network must be a model of Hugging Face, or a folder of one, "
            f"got {name!r} ({_extras.first_line(error)})"
        )
        raise ValueError(msg) from error
    made = next(iter(config.architectures or ()), "")
    if _zero_shot.is_zero_shot(getattr(transformers, made, None)):
        prompts = options.prompts or _zero_shot.PROMPTS
        return _of_texts(transformers, name, options.classes, prompts)
    names = config.id2label or {}
    own = tuple(str(names[i]) for i in sorted(names))
    if made.endswith("ForImageClassification"):
        model = transformers.AutoModelForImageClassification.from_pretrained(name)
        images, std, about = _image_processor(transformers, name)
        settings: dict[str, Any] = {"std": std, "preprocessing": about}
        return Classifier(f"hf:{name}", "image", model, images, own, **settings)
    if made.endswith("ForSequenceClassification"):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(name)
        return Classifier(f"hf:{name}", "text", model, _words(transformers, name), own)
    if not made.endswith("Model"):
        msg = _check.must(
            "a classifier of images or of sequences, a model like CLIP, or an "
            "embedding model",
            caller=CALLER,
            name="network",
            got=f"{name!r}, a {made or config.model_type}",
        )
        raise ValueError(msg)
    return _of_embeddings(transformers, name, config, options)


def _of_embeddings(
    transformers: Any, name: str, config: Any, options: Options
) -> Classifier:
    pooling = options.pooling
    if pooling is None:
        pooling = _embedding.usual_pooling(Path(name))
    _check.one_of(CALLER, "pooling", pooling, _embedding.POOLINGS)
    head = options.head
    if isinstance(head, str | Path):
        head = LinearHead.load(head)
    if not hasattr(config, "hidden_size"):
        rule = "an embedding model with embeddings of one size (hidden_size)"
        got = f"a {type(config).__name__}"
        raise ValueError(_check.must(rule, caller=CALLER, name="network", got=got))
    model = transformers.AutoModel.from_pretrained(name)
    made = _embedding.Embedded(model, pooling, head).eval()
    std, about = None, ""
    is_image = hasattr(config, "num_channels")
    if is_image:
        prepare, std, about = _image_processor(transformers, name)
    else:
        prepare = _words(transformers, name)
    return Classifier(
        f"hf:{name}",
        "image" if is_image else "text",
        made,
        prepare,
        classes=() if head is None else head.classes,
        note=f"an embedding model, {pooling} pooling",
        std=std,
        embeds=head is None,
        preprocessing=about,
    )


def _of_texts(
    transformers: Any, name: str, classes: Sequence[str], prompts: Sequence[str]
) -> Classifier:
    _zero_shot.check_texts(classes, prompts)
    model = transformers.AutoModel.from_pretrained(name)
    words = transformers.AutoTokenizer.from_pretrained(name)
    found = _zero_shot.ZeroShot(model, words, classes, prompts).eval()
    scale = found.scale
    note = f"zero-shot: its logits are {scale:.6g} times the cosines of image and text"
    if f"{scale:.6g}" != f"{MCM().scale:.6g}":
        note += f". For MCM say so: --detector mcm:scale={scale:.6g}"
    images, std, about = _image_processor(transformers, name)

    def prepare(samples: list[Any]) -> Any:
        is_text = isinstance(samples[0], str)
        return {"texts": found.embedded(samples)} if is_text else images(samples)

    return Classifier(
        f"hf:{name}",
        "image",
        found,
        prepare,
        tuple(classes),
        note,
        std,
        preprocessing=about,
    )


def _image_processor(
    transformers: Any, name: str
) -> tuple[Callable[[list[Any]], Any], tuple[float, ...] | None, str]:
    """Return what prepares images, what it divides pixels by, and a description."""
    images = transformers.AutoImageProcessor.from_pretrained(name)
    is_divided = images.do_rescale and images.do_normalize
    std = tuple(images.image_std) if is_divided else None
    config = images.to_dict()
    said = ("size", "crop_size", "do_center_crop", "resample", "rescale_factor")
    about = {key: config.get(key) for key in (*said, "image_mean", "image_std")}
    shown = listed({key: value for key, value in about.items() if value is not None})

    def prepare(samples: list[Any]) -> Any:
        return images(samples, return_tensors="pt")

    return prepare, std, f"RGB, {shown}"


def _words(transformers: Any, name: str) -> Callable[[list[Any]], Any]:
    words = transformers.AutoTokenizer.from_pretrained(name)
    return partial(words, return_tensors="pt", padding=True, truncation=True)
