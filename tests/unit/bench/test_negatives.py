"""Studies whose networks are trained with negatives."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, bench, datasets, protocols
from openset.bench import _protocols, parse, plan
from openset.datasets import Dataset

train = pytest.importorskip("openset.train", reason="trains networks")

HEAD = """
protocols: [{kind: holdout, data: digits, known: 4, unknown: 3, validation: 0.1}]
detectors: [published]
"""
FILE = "protocols: [{kind: file, path: p.json, data: digits}]\ndetectors: [msp]\n"
SETTINGS = {"recipe": "arpl", "epochs": 2, "lr": 0.02, "accelerator": "cpu"}


def study(negatives="", methods="entropic", *, head=HEAD, base=None):
    """Return a study with one network."""
    params = ", ".join(f"{key}: {value}" for key, value in SETTINGS.items())
    more = f", negatives: {negatives}" if negatives else ""
    models = f"models: [{{kind: network, params: {{{params}{more}}}}}]\n"
    text = f"{head}{models}methods: [{methods}]\n"
    return parse(text.encode(), "study.yaml", base=base)


def inverted(digits, n=50):
    return Dataset(
        inputs=16 - digits.inputs[:n],
        labels=np.zeros(n, int),
        classes=["inverted"],
        kind="table",
        name="inverted",
    )


def write_protocol(folder):
    names = datasets.load("digits").classes
    made = {"known": names[:4], "unknown": names[8:], "negative": names[5:6]}
    protocols.Protocol(source="digits", **made).save(folder / "p.json")


def samples(made):
    """Return the samples of the network of a study."""
    entry, base = made.protocols[0], made.base
    protocol, *_ = _protocols.draw(entry, base, base)
    name = made.models[0].negatives
    return _protocols.cut(entry, protocol, base, base, negatives=name)


def test_workers_train_with_a_file_of_negatives_as_fit_does(tmp_path):
    digits = datasets.load("digits")
    inverted(digits).save(tmp_path / "others.npz")
    made = study("others.npz", "softmax, entropic", base=tmp_path)
    done = bench.run(made, tmp_path / "run", backend="loky", jobs=1)
    assert (done.n_run, done.failed) == (2, ())
    (drawn,) = protocols.holdout(digits, 4, 3, 1, rng=0)
    protocol = dataclasses.replace(drawn, validation=0.1)
    for source in plan(made).networks():
        method = source.method.name
        # Softmax has no use for negatives: it is trained as ever.
        more = {"negatives": inverted(digits)} if method == "entropic" else {}
        expected = train.fit(
            method=method, data=digits, protocol=protocol, progress=False,
            **SETTINGS, **more,
        )  # fmt: skip
        folder = tmp_path / "run" / "networks" / source.id
        assert set(Outputs.load(folder / "negative").groups) == {"inverted"}
        for part, wanted in expected.outputs.items():
            found = Outputs.load(folder / part)
            assert_array_equal(found.groups, wanted.groups)
            close = {"rtol": 1e-4, "atol": 1e-5}  # one thread, or several
            np.testing.assert_allclose(found.logits, wanted.logits, **close)


def test_unused_classes_of_the_known_data_set_are_negatives():
    made = study("digits")
    cut = samples(made)
    assert set(cut.negative.groups) == set(cut.protocol.negative)
    used = {*cut.protocol.known, *cut.protocol.unknown}
    assert set(cut.protocol.negative) == set(datasets.load("digits").classes) - used
    plain = samples(study(methods="softmax"))
    assert_array_equal(cut.train.inputs, plain.train.inputs)  # nothing else changes
    assert_array_equal(cut.test.inputs, plain.test.inputs)


def test_negative_classes_of_a_protocol_file_are_used(tmp_path):
    write_protocol(tmp_path)
    for negatives in ("", "protocol"):
        cut = samples(study(negatives, head=FILE, base=tmp_path))
        assert set(cut.negative.groups) == {"5"}


def test_other_negatives_are_other_cells():
    names = ["digits", "one.npz", "other.npz"]
    ids = [plan(study(name)).ids for name in names]
    assert len(set.union(*ids)) == len(names)


def test_a_file_of_negatives_that_was_exchanged_is_noticed(tmp_path):
    digits = datasets.load("digits")
    made = study("others.npz", base=tmp_path)
    inverted(digits).save(tmp_path / "others.npz")
    assert bench.run(made, tmp_path / "run", backend="sequential").failed == ()
    inverted(digits, n=40).save(tmp_path / "others.npz")
    with pytest.raises(ValueError, match=r"bench: others\.npz must not change after"):
        bench.run(made, tmp_path / "run", backend="sequential")


FOLDS = HEAD.replace("validation: 0.1", "folds: 2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negatives": "digit"}, "must be one of 'digits'"),
        ({"negatives": "[digits]"}, "must be 'protocol', or the name or path of a"),
        ({"negatives": "protocol"}, "must be a data set, as protocols[0] has no neg"),
        ({"negatives": "digits", "head": FILE}, "must be 'protocol', as protocols[0]"),
        ({"negatives": "digits", "head": FOLDS}, "must be left out, as protocols[0]"),
        (
            {"negatives": "digits", "methods": "softmax"},
            "must be left out, as no method of the study trains with negatives",
        ),
        ({}, "must be given for the method 'entropic', got none, and protocols[0] has"),
    ],
)
def test_impossible_negatives_are_refused_when_the_file_is_read(
    tmp_path, options, message
):
    write_protocol(tmp_path)
    with pytest.raises(ValueError, match=r"^study\.yaml: ") as caught:
        study(**options, base=tmp_path)
    assert f"study.yaml: models[0].params.negatives {message}" in str(caught.value)
