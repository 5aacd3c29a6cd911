"""A tiny CLIP, SigLIP and BERT with tokenizer and image processor, made offline."""

import math

import pytest
import torch

PAD, UNKNOWN, END = "<pad>", "<unk>", "<eos>"
WORDS = [PAD, UNKNOWN, "a", "photo", "of", "drawing", "the", "cat", "dog", "red",
         "bird", ".", "<bos>", END]  # fmt: skip


def tokenizer():
    """Return a tokenizer of a dozen words."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {word: row for row, word in enumerate(WORDS)}, unk_token=UNKNOWN
        )
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 12), ("<eos>", 13)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, unk_token=UNKNOWN, eos_token=END,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def small(kind):
    """Return a CLIP or SigLIP of one layer with random weights."""
    transformers = pytest.importorskip("transformers")
    text = {
        "vocab_size": len(WORDS), "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "projection_dim": 16,
        "max_position_embeddings": 12, "eos_token_id": 13, "bos_token_id": 12,
        "pad_token_id": 0,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "image_size": 32, "patch_size": 16,
    }  # fmt: skip
    torch.manual_seed(0)
    if kind == "clip":
        config = transformers.CLIPConfig(
            text_config=text, vision_config=vision, projection_dim=10
        )
        model = transformers.CLIPModel(config).eval()
        with torch.no_grad():
            model.logit_scale.fill_(math.log(100))  # as in the published models
        return model
    config = transformers.SiglipConfig(text_config=text, vision_config=vision)
    model = transformers.SiglipModel(config).eval()
    with torch.no_grad():
        model.logit_scale.fill_(4.7)
        model.logit_bias.fill_(-12.0)
    return model


def save_small(kind, folder):
    """Save a small model to a folder; return it with its image processor."""
    transformers = pytest.importorskip("transformers")
    model = small(kind)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    images.save_pretrained(folder)
    return model, images


def save_bert(kind, folder, words, **changes):
    """Save a BERT of one layer and a tokenizer of these words; return the model."""
    transformers = pytest.importorskip("transformers")
    listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words.split()]
    (folder / "words.txt").write_text("\n".join(listed), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "words.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "vocab_size": len(listed)}
    torch.manual_seed(0)
    model = getattr(transformers, kind)(transformers.BertConfig(**sizes, **changes))
    model.eval().save_pretrained(folder)
    return model
