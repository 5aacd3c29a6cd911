"""Zero-shot classifiers: a model of images and texts, and names of classes."""

from collections.abc import Sequence
from typing import Any

from openset import _check, _extras

with _extras.importing("openset.integrations.networks", "torch"):
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import normalize

_CALLER = "networks.load"
PROMPTS = ("a photo of a {}.",)
_TEXTS_AT_ONCE = 256


class ZeroShot(nn.Module):
    """Compares an image with the text of each class.

    Features are unit image embeddings; the last layer has a row per class, the unit
    embedding of its texts times the learned scale. So the logits are the scale times
    the cosines. SigLIP's bias is left out: it is the same for all classes.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        classes: Sequence[str],
        prompts: Sequence[str],
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.prompts = model, tokenizer, tuple(prompts)
        self.scale = scale_of(model)
        texts = self.embedded(classes)
        self.head = nn.Linear(texts.shape[1], texts.shape[0])
        with torch.no_grad():
            self.head.weight.copy_(texts * self.scale)
            self.head.bias.zero_()

    def embedded(self, names: Sequence[str]) -> Tensor:
        """Return a unit embedding of each name, the mean over the prompts."""
        return class_texts(self.model, self.tokenizer, names, self.prompts)

    def forward(self, texts: Tensor | None = None, **images: Any) -> Tensor:
        """Return the logits of preprocessed images, or of texts."""
        if texts is not None:
            return self.head(texts)
        embedded = _embedding(self.model.get_image_features(**images))  # type: ignore[operator]
        return self.head(normalize(embedded, dim=-1))


def is_zero_shot(kind: Any) -> bool:
    """Whether a class of transformers embeds both images and texts."""
    return hasattr(kind, "get_image_features") and hasattr(kind, "get_text_features")


def scale_of(model: nn.Module) -> float:
    """Return the factor by which the model multiplies cosines."""
    scale = getattr(model, "logit_scale", None)
    if scale is None:
        msg = _check.must(
            "a model like CLIP or SigLIP, with a learned logit_scale",
            caller=_CALLER,
            name="network",
            got=f"a {type(model).__name__}",
        )
        raise ValueError(msg)
    return float(torch.exp(scale.detach()))


def class_texts(
    model: nn.Module,
    tokenizer: Any,
    classes: Sequence[str],
    prompts: Sequence[str],
) -> Tensor:
    """Return a unit embedding of each class: the mean over its prompts, shape (C, d).

    Embeddings are normalised before the mean and after it, as CLIP's authors do.
    """
    texts = [prompt.replace("{}", name) for name in classes for prompt in prompts]
    parts = []
    model.eval()
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        tokens = _tokens(model, tokenizer, texts[start : start + _TEXTS_AT_ONCE])
        tokens = tokens.to(next(model.parameters()).device)
        with torch.no_grad():
            found = _embedding(model.get_text_features(**tokens))  # type: ignore[operator]
        parts.append(normalize(found.float(), dim=-1))
    unit = torch.cat(parts).reshape(len(classes), len(prompts), -1)
    return normalize(unit.mean(dim=1), dim=-1)


def check_texts(classes: Sequence[str], prompts: Sequence[str]) -> None:
    """Raise unless there are classes, and every prompt has a place for their name."""
    if not classes:
        msg = _check.must(
            "the names of the classes to look for",
            caller=_CALLER,
            name="classes",
            got="none",
            remedy="A model of images and texts has no classes of its own",
        )
        raise ValueError(msg)
    for prompt in prompts:
        if "{}" not in prompt:
            rule = "texts with {} in place of the class, such as 'a photo of a {}.'"
            msg = _check.must(rule, caller=_CALLER, name="prompts", got=repr(prompt))
            raise ValueError(msg)


def _tokens(model: nn.Module, tokenizer: Any, texts: list[str]) -> Any:
    config: Any = model.config
    # SigLIP was trained on texts padded to full length, and without a mask.
    is_siglip = "siglip" in str(config.model_type)
    return tokenizer(
        texts,
        return_tensors="pt",
        padding="max_length" if is_siglip else True,
        max_length=config.text_config.max_position_embeddings,
        truncation=True,
    )


def _embedding(found: Any) -> Tensor:
    """Return the embedding; transformers 5 returns it among other things."""
    return found if isinstance(found, Tensor) else found.pooler_output
