"""Read a study file; errors name the key."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from openset import _check
from openset.bench._check_study import check
from openset.bench._study import Study


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """A safe YAML loader that also rejects duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # as in PyYAML
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                msg = f"{key} must be given once, got a second one in line {line}"
                raise ValueError(msg)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read(path: str | Path) -> Study:
    """Read a study from a ``.yaml``, ``.yml`` or ``.toml`` file.

    Raises
    ------
    ValueError
        The message has file, key, rule and value: ``study.yaml: detectors[2].k must be
        an integer >= 1, got 0``.
    """
    path = Path(path)
    _check.ending("bench.read", path, [".yaml", ".yml", ".toml"])
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        msg = f"bench.read: no such file: {path}"
        raise FileNotFoundError(msg) from error
    return parse(content, path.name, base=path.resolve().parent)


def parse(text: bytes, name: str, *, base: Path | None = None) -> Study:
    """Read the content of a study file of this name.

    Relative paths and modules in it are resolved relative to `base`.

    Examples
    --------
    >>> parse(b"detectors: [{name: knn, k: 0}]", "study.yaml")
    Traceback (most recent call last):
    ...
    ValueError: study.yaml: detectors[0].k must be an integer >= 1, got 0
    """
    try:
        data = (
            tomllib.loads(text.decode("utf-8"))
            if name.endswith(".toml")
            else yaml.load(text, _Loader)  # noqa: S506  # a safe loader, made stricter
        )
    except (yaml.YAMLError, ValueError) as error:
        msg = f"{name}: {_broken(error)}"
        raise ValueError(msg) from error
    if not isinstance(data, dict):
        msg = _check.must(
            "a table of keys", caller=name, name="the file", got=type(data).__name__
        )
        raise TypeError(msg)
    try:
        study = Study.model_validate(data)
    except ValidationError as error:
        raise ValueError(_message(name, data, error)) from error
    study = study if base is None else study.at(base)
    check(study, name)
    return study


def _broken(error: Exception) -> str:
    """Describe a syntax error of YAML or TOML in one line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    context, problem = (getattr(error, part) for part in ("context", "problem"))
    why = ": ".join(text for text in (context, problem) if text)
    return f"line {mark.line + 1}, column {mark.column + 1}: {why}"


def _message(name: str, data: Any, error: ValidationError) -> str:
    """Return the first error as a message, with the number of further errors."""
    listed = error.errors(include_url=False)
    first = listed[0]
    path, kind = _path(first["loc"], data), first["type"]
    if kind == "missing":
        text = f"{path} must be given, got nothing"
    elif kind == "extra_forbidden":
        text = f"{path} must be left out, as there is no such key"
    elif kind in {"union_tag_invalid", "union_tag_not_found"}:
        kinds = first.get("ctx", {}).get("expected_tags") or _kinds_of(path)
        got = repr(first["input"].get("kind")) if kind.endswith("invalid") else "none"
        text = f"{path}.kind must be one of {kinds}, got {got}"
    elif path == "seeds":
        rule = "a number >= 1 or a list of seeds"
        text = f"seeds must be {rule}, got {first['input']!r}"
    elif kind == "too_short":
        text = f"{path} must have an entry, got {first['input']!r}"
    else:
        rule = first["msg"].removeprefix("Input should be ")
        rule = rule[:1].lower() + rule[1:]
        text = f"{path} must be {rule}, got {first['input']!r}"
    more = f" (and {len(listed) - 1} more errors)" if len(listed) > 1 else ""
    return f"{name}: {text}{more}"


def _kinds_of(path: str) -> str:
    if path.startswith("protocols"):
        kinds = "holdout outlier operational published classes file"
    else:
        kinds = "mlp logistic sklearn network"
    return ", ".join(repr(kind) for kind in kinds.split())


def _path(loc: Iterable[Any], data: Any) -> str:
    """Return a location as ``detectors[2].k``, without pydantic's names of unions."""
    text, here = "", data
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
            is_there = isinstance(here, list) and step < len(here)
            here = here[step] if is_there else None
        elif isinstance(here, dict) and here.get("kind") == step and step not in here:
            continue  # the tag of a union
        elif isinstance(here, dict) or step.isidentifier():
            text += f".{step}" if text else step
            here = here.get(step) if isinstance(here, dict) else None
    return text.replace(".params.", ".")
