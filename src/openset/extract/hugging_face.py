"""Networks of Hugging Face: classifiers, embedding models, models like CLIP."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from openset import _check
from openset._optional import needs, optional
from openset.extract.modules import ModuleNetwork
from openset.extract.network import Network, listed

with needs("torch"):
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import normalize

_CALLER = "extract.load"
_TEXTS_AT_ONCE = 256


@needs()  # it imports its parts late
def of_model(
    name: str,
    *,
    classes: Sequence[str] = (),
    prompts: Sequence[str] = ("a photo of a {}.",),
) -> Network:
    """Open a model by its name, or a folder of one."""
    hub = optional("transformers")
    config = hub.AutoConfig.from_pretrained(name)
    made = next(iter(config.architectures or ()), "")
    kind, names = getattr(hub, made, None), config.id2label or {}
    model: Any
    takes_images, embeds = "Image" in made, False
    if hasattr(kind, "get_image_features") and hasattr(kind, "get_text_features"):
        if not classes:
            remedy = "A model of images and texts has no classes of its own"
            rule = "the names of the classes to look for"
            _check.fail(_CALLER, "classes", rule, "none", remedy)
        words = hub.AutoTokenizer.from_pretrained(name)
        both = hub.AutoModel.from_pretrained(name)
        model, takes_images = ZeroShot(both, words, classes, prompts), True
    elif made.endswith(("ForImageClassification", "ForSequenceClassification")):
        model = getattr(hub, made).from_pretrained(name)
        classes = [str(names[i]) for i in sorted(names)]
    elif made.endswith("Model") and hasattr(config, "hidden_size"):
        model = _Embedded(hub.AutoModel.from_pretrained(name), _pooling(name))
        takes_images, embeds = hasattr(config, "num_channels"), True
    else:
        rule = (
            "a classifier of images or of sequences, a model like CLIP, or an "
            "embedding model with embeddings of one size (hidden_size)"
        )
        got = f"{name!r}, a {made or config.model_type}"
        _check.fail(_CALLER, "network", rule, got)
    about = (_of_images if takes_images else _of_texts)(hub, name)
    about |= {"model": model.eval(), "classes": tuple(classes), "embeds": embeds}
    return ModuleNetwork(name=f"hf:{name}", **about)


def _of_images(hub: Any, name: str) -> dict[str, Any]:
    """Return what prepares images, what it divides pixels by, and a description."""
    images = hub.AutoImageProcessor.from_pretrained(name)
    config = images.to_dict()
    said = ("size", "crop_size", "do_center_crop", "resample", "rescale_factor")
    shown = {key: config.get(key) for key in (*said, "image_mean", "image_std")}
    is_divided = images.do_rescale and images.do_normalize
    return {
        "transform": partial(images, return_tensors="pt"),
        "std": tuple(images.image_std) if is_divided else None,
        "preprocessing": f"RGB, {listed(shown)}",
    }


def _of_texts(hub: Any, name: str) -> dict[str, Any]:
    words = hub.AutoTokenizer.from_pretrained(name)
    prepare = partial(words, return_tensors="pt", padding=True, truncation=True)
    return {"transform": prepare, "kind": "text"}


# Embedding models: the last layer is still to be fitted.


def _pooling(name: str) -> str:
    """Return what the folder states (sentence-transformers), or "mean"."""
    stated = Path(name) / "1_Pooling/config.json"
    config = json.loads(stated.read_text("utf-8")) if stated.exists() else {}
    return "cls" if config.get("pooling_mode_cls_token") else "mean"


class _Embedded(nn.Module):
    """An embedding model with its pooling and a last layer."""

    def __init__(self, model: nn.Module, pooling: str) -> None:
        super().__init__()
        self.model, self.pooling = model, pooling
        config: Any = model.config
        # Until there is another: one output, whose input is what is wanted.
        self.head = nn.Linear(int(config.hidden_size), 1)

    def forward(self, **inputs: Any) -> Tensor:
        """Return the logits, from the output of the tokenizer or image processor."""
        states = self.model(**inputs).last_hidden_state
        return self.head(pooled(states, inputs.get("attention_mask"), self.pooling))


def pooled(states: Tensor, mask: Tensor | None, pooling: str) -> Tensor:
    """Return one embedding per sample.

    Parameters
    ----------
    states
        Shape (n, tokens, d), or (n, d, h, w) of a convolutional network.
    mask
        1 for tokens of the text, 0 for padding.
    pooling
        "mean" over the tokens, or "cls": the first one.

    Examples
    --------
    >>> states = torch.tensor([[[1.0], [3.0], [50.0]]])
    >>> pooled(states, torch.tensor([[1, 1, 0]]), "mean").item()
    2.0
    >>> pooled(states, None, "cls").item()
    1.0
    """
    if states.ndim == 4:
        return states.mean(dim=(2, 3))
    if pooling == "cls":
        return states[:, 0]
    if mask is None:
        return states.mean(dim=1)
    weights = mask.to(states.dtype)[:, :, None]
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)


# Models of images and texts: names of classes make the last layer.


class ZeroShot(nn.Module):
    """Compares an image with the text of each class.

    Features are unit image embeddings; the last layer has a row per class, the unit
    embedding of its texts times the learned scale. So the logits are the scale times
    the cosines. SigLIP's bias is left out: it is the same for all classes.
    """

    def __init__(
        self, model: Any, tokenizer: Any, classes: Sequence[str], prompts: Sequence[str]
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.prompts = model, tokenizer, prompts
        self.scale = float(torch.exp(model.logit_scale.detach()))
        texts = self.embedded(classes)
        self.head = nn.Linear(texts.shape[1], texts.shape[0])
        with torch.no_grad():
            self.head.weight.copy_(texts * self.scale)
            self.head.bias.zero_()

    def forward(self, **images: Any) -> Tensor:
        """Return the logits of preprocessed images."""
        embedded = _embedding(self.model.get_image_features(**images))
        return self.head(normalize(embedded, dim=-1))

    @torch.no_grad()
    def embedded(self, names: Sequence[str]) -> Tensor:
        """Return a unit embedding of each name: the mean over its prompts.

        Embeddings are normalised before the mean and after it, as CLIP's authors do.
        """
        texts = [prompt.replace("{}", one) for one in names for prompt in self.prompts]
        config, parts = self.model.config, []
        # SigLIP was trained on texts padded to full length, and without a mask.
        padding = "max_length" if "siglip" in str(config.model_type) else True
        longest = config.text_config.max_position_embeddings
        how = {"padding": padding, "max_length": longest}
        self.model.eval()
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            some = texts[start : start + _TEXTS_AT_ONCE]
            tokens = self.tokenizer(some, return_tensors="pt", truncation=True, **how)
            tokens = tokens.to(next(self.model.parameters()).device)
            found = _embedding(self.model.get_text_features(**tokens))
            parts.append(normalize(found.float(), dim=-1))
        unit = torch.cat(parts).reshape(len(names), len(self.prompts), -1)
        return normalize(unit.mean(dim=1), dim=-1)


def _embedding(found: Any) -> Tensor:
    """Return the embedding; transformers 5 returns it among other things."""
    return found if isinstance(found, Tensor) else found.pooler_output
