"""What a file or a request costs: memory in proportion to its bytes, whatever it says.

A header may claim any shape and any type, a member may unpack to gigabytes, one long
cell may widen a column of millions. Each reader takes such files as any user would give
them, and its peak of memory is measured.
"""

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from openset import Outputs, Scores, datasets, detectors
from openset.detectors import Fitted
from openset.serve import arrays

FREE = 50_000_000
TIMES = 20


def npy(dtype, shape, body=b""):
    head = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


def archive(members, method=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content)
    return stream.getvalue()


def array(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


BIG = 10**9
HEADERS = {
    f"{dtype} {shape}": npy(dtype, shape)
    for dtype in ("<f8", "<U0", "<U1", "|S0", "<U536870911", "|V0", "|O", "<M8[s]")
    for shape in ((BIG,), (BIG, 0), (0, BIG), (2**62, 4), (1, BIG), (1,) * 33, ())
}
HEADERS["version 3"] = b"\x93NUMPY\x03\x00" + struct.pack("<I", 2**31) + b"{"
HEADERS["long header"] = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{"
HEADERS["nested header"] = npy("<f8", (1,)).replace(b"<f8", b"(" * 3)

NAMES = {
    "outputs": ("logits", "features", "labels", "groups", "ids", "classes"),
    "scores": ("known", "labels", "predicted", "groups", "ids", "class_names"),
    "data set": ("inputs", "labels", "classes", "part_train", "about"),
    "fitted": ("recipe", "about", "mean"),
}
GOOD = {
    "outputs": {"logits": array(np.eye(2))},
    "scores": {n: array([0, 1]) for n in ("known", "labels", "predicted")},
    "data set": {"inputs": array(np.eye(2)), "labels": array([0, 1])},
    "fitted": {},
}
READERS = {
    "outputs": Outputs.load,
    "scores": Scores.load,
    "data set": datasets.load,
    "fitted": Fitted.load,
}


def check(read, content, *arguments, unpacked=0):
    """Measure how much memory a reader takes at most, whether it refuses or not."""
    tracemalloc.start()
    try:
        read(*arguments)
    except MemoryError:
        raise
    except Exception:  # noqa: S110  # any refusal will do
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most <= TIMES * max(len(content), unpacked) + FREE, f"{most:,} bytes"


@pytest.mark.parametrize("kind", READERS)
def test_no_header_makes_a_file_expensive(kind, tmp_path):
    path = tmp_path / "file.npz"
    for member in NAMES[kind]:
        for head in HEADERS.values():
            path.write_bytes(archive(GOOD[kind] | {member: head}))
            check(READERS[kind], path.read_bytes(), path)


def forged(n):
    """Return an archive whose member says that it is small, and unpacks to `n`."""
    content = bytearray(archive({"logits": b"\0" * n}))
    for sign, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.index(sign) + offset
        content[at : at + 4] = struct.pack("<I", 100)
    return bytes(content)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, "forged"])
def test_no_compression_makes_a_file_expensive(kind, method, tmp_path):
    path = tmp_path / "file.npz"
    if method == "forged":
        path.write_bytes(forged(80_000_000))
    else:  # refused unread, whatever it declares
        body = npy("<f8", (10_000_000,), bytes(80_000_000))
        path.write_bytes(archive({NAMES[kind][0]: body}, method))
    check(READERS[kind], path.read_bytes(), path)


LONG = "x" * 130_000


def skewed(path):
    """Write scores with one group whose name is long, of 30,000 samples."""
    rows = [f"{i % 2},{i % 2},0.5,g" for i in range(30_000)]
    path.write_text(
        "\n".join(["labels,predicted,known,groups", *rows, f"0,0,1,{LONG}"])
    )


def test_one_long_cell_does_not_widen_a_column(tmp_path):
    path = tmp_path / "scores.csv"
    skewed(path)
    with pytest.raises(ValueError, match="texts of similar lengths, got one of 130000"):
        Scores.load(path)
    check(Scores.load, path.read_bytes(), path)
    pa = pytest.importorskip("pyarrow", reason="the extra tables")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra tables")
    numbers = {n: [0] * 30_001 for n in ("labels", "predicted", "known")}
    table = pa.table(numbers | {"groups": ["g"] * 30_000 + [LONG]})
    parquet.write_table(table, tmp_path / "scores.parquet")
    check(Scores.load, path.read_bytes(), tmp_path / "scores.parquet")
    with pytest.raises(ValueError, match="texts of similar lengths"):
        Outputs(logits=np.zeros((30_001, 1)), groups=["g"] * 30_000 + [LONG])


def test_one_large_label_makes_no_list_of_classes(tmp_path):
    path = tmp_path / "set.npz"
    for labels in ([0, BIG], [0, 2**62]):
        np.savez(path, inputs=np.eye(2), labels=labels)
        check(datasets.load, path.read_bytes(), path)


def test_a_recipe_of_a_detector_is_only_text(tmp_path):
    fitted = detectors.MSP().fit(Outputs(logits=np.eye(2), labels=[0, 1]))
    path = fitted.save(tmp_path / "msp.npz")
    deep = "[" * 100_000
    for text in (deep, json.dumps({"kind": "x" * 10**6})):
        for member in ("recipe", "about"):
            path.write_bytes(archive({member: array(np.array(text))}))
            check(Fitted.load, path.read_bytes(), path, unpacked=4 * len(text))


def bodies():
    good = GOOD["outputs"]
    for head in HEADERS.values():
        yield archive({"logits": head})
        yield archive(good | {"ids": head})
    yield archive({"logits": array(np.zeros((10**7, 1), np.float32))})
    yield archive({"logits": npy("<f8", (BIG,), bytes(10**7))}, zipfile.ZIP_BZIP2)
    yield archive(good | {"classes": array(np.array(["x" * 10**6] * 9))})
    ids = array(np.zeros(4_000_000, np.int8))
    yield archive({"logits": array(np.zeros((4_000_000, 1), np.int8)), "ids": ids})
    yield forged(8 * 10**7)


def read_body(content):
    found = arrays.from_npz(content, max_bytes=64 << 20)
    arrays.need_texts(found, 2)
    return [str(one) for one in found.get("classes", ())]


def test_no_request_is_expensive():
    for content in bodies():
        check(read_body, content, content)
