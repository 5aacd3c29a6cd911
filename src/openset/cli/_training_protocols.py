"""`openset train`: the protocols to train, from the options that name them."""

from collections.abc import Callable

from openset import _check, protocols
from openset.cli._training_report import say_drawn
from openset.datasets import Dataset
from openset.protocols import Protocol

_CALLER = "openset train"


def read_protocols(
    name: str,
    data: str,
    split: str,
    read: Callable[[], Dataset],
    *,
    known: str,
    all_splits: bool,
) -> dict[str, Protocol]:
    """Return the protocols to train, by the name of their split."""
    if not known:
        return _of_protocol(name, data, split, read, all_splits=all_splits)
    _need_no_protocol(name, split, all_splits=all_splits)
    return {"0": _of_known(known, read())}


def _need_no_protocol(protocol: str, split: str, *, all_splits: bool) -> None:
    others = {"--protocol": protocol, "--split": split, "--all-splits": all_splits}
    for name, got in others.items():
        if got:
            rule = "left out with --known"
            raise ValueError(_check.must(rule, caller=_CALLER, name=name, got=got))


def _of_known(text: str, data: Dataset) -> Protocol:
    """Return the protocol in which the classes that are named are known."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        _check.one_of(_CALLER, "--known", name, data.classes)
    others = [name for name in data.classes if name not in names]
    if not others:
        msg = _check.must(
            "some of the classes of the data, so that others can be tested",
            caller=_CALLER,
            name="--known",
            got="all of them",
            remedy="Add samples of something else to the data, as one more class",
        )
        raise ValueError(msg)
    return Protocol(known=tuple(names), unknown=tuple(others), source=data.label_set)


def _of_protocol(
    name: str,
    data: str,
    split: str,
    read: Callable[[], Dataset],
    *,
    all_splits: bool,
) -> dict[str, Protocol]:
    """Return the protocols to train, by the name of their split."""
    if split and all_splits:
        rule, got = "left out with --all-splits", repr(split)
        raise ValueError(_check.must(rule, caller=_CALLER, name="--split", got=got))
    given, name = name, name or data
    if not given and data not in protocols.names():
        name = read().label_set or data  # classes of a published data set
    if name.endswith(".json"):
        found = protocols.load(name)
        listed = [found] if isinstance(found, Protocol) else list(found)
        every = {str(i): one for i, one in enumerate(listed)}
    elif name in protocols.names():
        every = {str(i): protocols.published(name, i) for i in protocols.splits(name)}
    elif not given:
        drawn = protocols.default(read())
        every = {str(i): one for i, one in enumerate(drawn)}
    else:
        msg = _check.must(
            f"one of {', '.join(protocols.names())}, or a .json file",
            caller=_CALLER,
            name="--protocol",
            got=repr(name),
            remedy="To draw a new one: openset protocols holdout --help",
        )
        raise ValueError(msg)
    is_drawn = not given and name not in protocols.names()
    if all_splits:
        if is_drawn:
            for key, one in every.items():
                say_drawn(one, key, len(every))
        return every
    by_case = {key.lower(): key for key in every}
    chosen = by_case.get(split.lower(), split) if split else next(iter(every))
    if chosen not in every:
        rule = f"one of {', '.join(every)}, the splits of {name}"
        msg = _check.must(rule, caller=_CALLER, name="--split", got=repr(split))
        raise ValueError(msg)
    if is_drawn:
        say_drawn(every[chosen], chosen, len(every))
    return {chosen: every[chosen]}
