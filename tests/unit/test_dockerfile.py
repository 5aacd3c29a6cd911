"""The Dockerfile, as far as it can be checked without Docker."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from openset.cli import app

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "docker" / "Dockerfile"


@pytest.fixture
def instructions():
    """Return (instruction, arguments), one per logical line."""
    if not FILE.exists():
        pytest.skip("the examples are not part of this installation")
    text = re.sub(r"^#.*\n", "", FILE.read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def test_it_copies_what_is_there_and_the_context_has_it(instructions):
    ignored = (FILE.parent / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for name, arguments in instructions:
        if name == "COPY" and not arguments.startswith("--from"):
            *sources, _ = arguments.split()
            for source in sources:
                path = source.removeprefix("./")
                assert (ROOT / path).exists()
                assert f"!{path}" in ignored


def test_it_copies_what_a_build_reads(instructions):
    said = [arguments.split()[:-1] for name, arguments in instructions
            if name == "COPY" and not arguments.startswith("--from")]  # fmt: skip
    copied = {Path(one) for some in said for one in some}
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hatch = whole["tool"]["hatch"]
    read = [hatch["version"]["path"], hatch["metadata"]["hooks"]["custom"]["path"]]
    for name in [*read, *whole["project"]["license-files"], "README.md"]:
        path = Path(name)
        assert copied & {path, *path.parents}, name


def test_it_sends_nothing_to_the_makers_of_its_parts(instructions):
    assert "ORT_DISABLE_TELEMETRY=1" in dict(instructions)["ENV"].split()


def test_it_serves_as_nobody_in_particular_and_says_whether_it_is_well(instructions):
    found = dict(instructions)
    assert int(found["USER"]) > 0
    _, _, check = found["HEALTHCHECK"].partition("CMD ")
    program = json.loads(check)[-1]
    compile(program, "HEALTHCHECK", "exec")
    assert f":{found['EXPOSE']}/healthz" in program
    words = json.loads(found["ENTRYPOINT"])
    assert words[0] == "openset"
    assert words[words.index("--port") + 1] == found["EXPOSE"]
    # The options are those of the command: only the rejector is missing here.
    done = CliRunner().invoke(app, [*words[1:], *json.loads(found["CMD"])])
    assert isinstance(done.exception, FileNotFoundError)
    assert "/rejector" in str(done.exception)
