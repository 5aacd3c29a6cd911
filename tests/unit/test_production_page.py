"""The commands of docs/production.md run, in order, as they stand there."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.waiting import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "production.md"


def commands():
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    whole = (block.replace("\\\n", " ") for block in blocks)
    return [line for block in whole for line in block.strip().splitlines()]


def openset(arguments, folder, **options):
    command = [sys.executable, "-c", "from openset.cli import main; main()"]
    return subprocess.Popen(  # noqa: S603
        [*command, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "100"},
        **options,
    )


def served(arguments, folder):
    """Start the server on a free port and post what the page posts."""
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    server = openset(["0" if word == "8000" else word for word in arguments], folder)
    said = []
    try:
        for line in server.stdout:
            said.append(line)
            if found := re.search(r"Serving at (http://\S+)", line):
                break
        else:
            pytest.fail("".join(said))
        body = (folder / "demo" / "unseen.npz").read_bytes()
        kind = {"Content-Type": "application/x-npz"}
        url = f"{found[1]}/predict"
        return httpx.post(url, content=body, headers=kind, timeout=PATIENCE)
    finally:
        server.terminate()
        server.communicate()


def test_the_page_works_as_written(tmp_path):
    lines = commands()
    verbs = [shlex.split(line)[1] for line in lines if line.startswith("openset ")]
    assert verbs == [
        *("demo", "calibrate", "predict", "predict", "export", "serve", "watch")
    ]
    answer = None
    for line in lines:
        words = shlex.split(line)
        if words[0] == "curl":
            assert "demo/unseen.npz" in line
            assert answer is not None
            continue
        assert words[0] == "openset"
        if words[1] == "serve":
            answer = served(words[1:], tmp_path)
            continue
        done = openset(words[1:], tmp_path)
        text = done.communicate()[0]
        assert done.returncode == 0, f"{line}\n{text}"
    assert (tmp_path / "rejector.onnx").stat().st_size > 100
    table = (tmp_path / "decisions.csv").read_text().splitlines()
    decisions = json.loads(answer.text)["decisions"]
    assert len(decisions) == len(table) - 1
    assert np.mean(np.array(decisions) == -1) > 0.8  # digits it has never seen
