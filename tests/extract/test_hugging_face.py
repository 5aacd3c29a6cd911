"""Tiny CLIP and SigLIP, built offline: text heads against a computation by hand."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from openset.extract import Odin, load, run
from tests.clip import save_bert, save_small, tokenizer
from tests.vision import declare_operators

declare_operators()  # transformers imports torchvision
pytest.importorskip("transformers")

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 40, 48, 3), dtype=np.uint8)
CLASSES = ("cat", "dog", "red bird")
PROMPTS = ("a photo of a {}.", "a drawing of the {}")


@pytest.fixture(scope="module", params=["clip", "siglip"])
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder, *save_small(request.param, folder)


def by_hand(kind, model, images, prompts):
    """Loop over classes and prompts, one text at a time; the model's own products."""
    given = images([Image.fromarray(one) for one in IMAGES], return_tensors="pt")
    how = {"padding": "max_length", "max_length": 12} if kind == "siglip" else {}
    words, found = tokenizer(), []
    for name in CLASSES:
        texts = [words([p.format(name)], return_tensors="pt", **how) for p in prompts]
        with torch.no_grad():
            both = [model(**one, **given) for one in texts]
        mean = sum(one.text_embeds[0] for one in both) / len(both)  # of unit length
        found.append(mean / mean.norm())
    scale = float(model.logit_scale.detach().exp())
    return both[0].image_embeds.numpy(), torch.stack(found).numpy(), scale


@pytest.mark.parametrize("options", [{}, {"prompts": PROMPTS}])
def test_classes_and_prompts_make_a_head(saved, options):
    kind, folder, model, images = saved
    prompts = options.get("prompts", ["a photo of a {}."])
    image, texts, scale = by_hand(kind, model, images, prompts)
    network = load(f"hf:{folder}", classes=CLASSES, **options)
    assert (network.kind, network.classes) == ("image", CLASSES)
    found = network.apply(
        IMAGES, labels=[0, 1, 2, -1, 0], batch_size=2, device="cpu", progress=False
    )
    assert_allclose(found.features, image, atol=1e-5)
    assert_allclose(found.weight, scale * texts, rtol=1e-4, atol=1e-4)
    assert_array_equal(found.bias, np.zeros(3))
    assert_allclose(found.logits, scale * image @ texts.T, rtol=1e-4, atol=1e-3)
    again = found.features @ found.weight.T + found.bias
    assert_allclose(again, found.logits, rtol=1e-5, atol=1e-4)
    assert_allclose(np.linalg.norm(found.features, axis=1), 1, rtol=1e-5)
    assert found.classes == CLASSES
    assert_array_equal(found.labels, [0, 1, 2, -1, 0])


def test_what_is_missing_is_named(saved):
    folder = saved[1]
    with pytest.raises(ValueError, match="classes must be the names of the classes"):
        load(f"hf:{folder}")


def test_a_text_classifier(tmp_path):
    kind, words = "BertForSequenceClassification", "book a table now"
    model = save_bert(kind, tmp_path, words, num_labels=4)
    texts = ["book a table", "now", "book now", "a table now book a table"]
    network = load(f"hf:{tmp_path}")
    assert network.kind == "text"
    found = network.apply(texts, batch_size=3, device="cpu", progress=False)
    for text, row in zip(texts, found.logits, strict=True):
        with torch.no_grad():
            alone = model(**network.prepare([text])).logits
        assert_allclose(row, alone[0], atol=1e-5)
    again = found.features @ found.weight.T + found.bias
    assert_allclose(again, found.logits, atol=1e-4)
    with pytest.raises(TypeError, match="tokens of texts have no gradient"):
        network.apply(texts, step=Odin(), progress=False)
    with pytest.raises(ValueError, match="network must be one for images"):
        network.traced()
    (tmp_path / "mails.txt").write_text("now\n\n" + "a table " * 30, "utf-8")
    mails = run(network, tmp_path / "mails.txt", device="cpu", progress=False)
    assert set(mails.groups) == {"mails"}
    short, long = mails.ids.tolist()  # what openset predict shows
    assert (short, long[:8], long[-2:], len(long) <= 80) == ("now", "a table ", " …", 1)
    (tmp_path / "m.csv").write_text("text,label\nnow,LABEL_2\na,menu\n", "utf-8")
    table = run(network, tmp_path / "m.csv", device="cpu", progress=False)
    assert table.labels.tolist() == [2, -1]
    assert table.groups.tolist() == ["LABEL_2", "menu"]
