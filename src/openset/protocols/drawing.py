"""Protocols with randomly drawn classes: holdout, outlier, operational."""

from typing import Any

from openset import _check
from openset.protocols.classes import Class, class_list
from openset.protocols.draws import Draws
from openset.protocols.protocol import Protocol
from openset.protocols.sampling import Stream


def holdout(
    classes: Any,
    n_known: int,
    n_unknown: int,
    repeats: int | None = None,
    rng: Any = 0,
) -> Any:
    """Draw known and unknown classes from one data set.

    Parameters
    ----------
    classes
        The classes to draw from: names or numbers, a count n for ``0..n-1``, or a
        data set.
    n_known, n_unknown
        Number of known and of unknown classes. The other classes are `unused`.
    repeats
        Number of independent draws; by default one protocol instead of a sequence.
    rng
        A seed or a ``numpy.random.Generator``. The same seed gives the same protocols
        on every platform and NumPy version.

    References
    ----------
    Class-imbalance paper (2024), section 4.1: the Holdout protocol, five class draws
    for each of five openness values.

    Examples
    --------
    >>> holdout(10, 6, 4, rng=0).known
    (0, 1, 2, 3, 6, 8)
    >>> holdout(["cat", "dog", "fox"], 2, 1, repeats=5, rng=0)
    Draws(5 protocols, 2 distinct, openness 0.106)
    """
    universe, source = universe_of("holdout", "classes", classes)
    sizes = {"known": n_known, "unknown": n_unknown}
    about = {"source": source, "classes": universe}
    return _drawn("holdout", [(universe, sizes)], repeats, rng, **about)


def default(data: Any) -> Draws:
    """Draw the protocols that training uses for data without a published one.

    Five draws with seed 0; six of ten classes are known and the others unknown, as in
    the published splits of CIFAR-10, SVHN and MNIST.

    Parameters
    ----------
    data
        A data set, or its classes, as for :func:`holdout`.

    Examples
    --------
    >>> default(10)
    Draws(5 protocols, 5 distinct, openness 0.134)
    >>> default(10)[0] == holdout(10, 6, 4, rng=0)
    True
    """
    universe, _ = universe_of("protocols.default", "data", data)
    n = len(universe)
    if n < 3:
        rule = "of three classes or more, to draw known and unknown ones"
        _check.fail("protocols.default", "data", rule, n, "Give a protocol")
    n_known = max(2, min(round(0.6 * n), n - 1))
    return holdout(data, n_known, n - n_known, 5, rng=0)


def outlier(
    known_set: Any,
    unknown_set: Any,
    n_known: int | None = None,
    n_unknown: int | None = None,
    *,
    repeats: int | None = None,
    rng: Any = 0,
) -> Any:
    """Draw the known classes from one data set and the unknown ones from another.

    Every class of either set is equally likely. (A public library draws them with
    weight equal to the class number, so that class 0 is never drawn.)

    Parameters
    ----------
    known_set, unknown_set
        Data sets, lists of classes, or class counts. Lists without a data set are
        named "known set" and "unknown set", so that both may hold a class 3.
    n_known, n_unknown
        Number of classes of each; by default all of them.
    repeats, rng
        See :func:`holdout`.

    References
    ----------
    Class-imbalance paper (2024), section 4.1: the Outlier protocol, CIFAR-10 against
    SVHN.

    Examples
    --------
    >>> p = outlier(10, 10, 2, 8, rng=0)
    >>> p.known, p.unknown
    ((2, 3), (0, 1, 3, 4, 5, 7, 8, 9))
    >>> round(p.openness, 3)
    0.423
    """
    caller = "outlier"
    inside, source = universe_of(caller, "known_set", known_set)
    outside, unknown_source = universe_of(caller, "unknown_set", unknown_set)
    source, unknown_source = source or "known set", unknown_source or "unknown set"
    if source == unknown_source:
        remedy = "Within one data set, use holdout"
        names = "known_set and unknown_set"
        _check.fail(caller, names, "two data sets", f"{source!r} twice", remedy)
    parts = [
        (inside, {"known": len(inside) if n_known is None else n_known}),
        (outside, {"unknown": len(outside) if n_unknown is None else n_unknown}),
    ]
    about = {"source": source, "unknown_source": unknown_source, "classes": inside}
    return _drawn(caller, parts, repeats, rng, **about)


def operational(
    classes: Any,
    n_known: int,
    n_surrogate: int,
    n_unknown: int,
    *,
    repeats: int | None = None,
    rng: Any = 0,
    validation: float = 0.2,
    n_tests: int = 5,
    unknowns: str = "dealt",
) -> Any:
    """Draw a protocol for choosing a threshold and testing it on other unknowns.

    Train and validation hold known samples; the surrogate part holds samples of classes
    that are neither known nor among the test unknowns; the test set is divided into
    `n_tests` disjoint splits. The threshold is chosen on validation + surrogate and
    applied to each test split.

    Parameters
    ----------
    classes
        See :func:`holdout`.
    n_known, n_surrogate, n_unknown
        Class counts; the three groups are disjoint.
    repeats, rng
        See :func:`holdout`.
    validation
        Share of each known class's training samples kept for validation.
    n_tests
        Number of test splits; every known test sample is in exactly one.
    unknowns
        "dealt": each unknown sample is in exactly one test split, so that splits are
        independent. "shared": all unknown samples are in every split, as in the paper.

    References
    ----------
    PostMax paper (ECCV 2024), section 4: ImageNetV2 as validation, 20 % of
    ImageNet-21K-P Hard as surrogate, ILSVRC2012 val in five equal test splits.

    Examples
    --------
    >>> p = operational(10, 5, 2, 3, rng=0)
    >>> p.known, p.surrogate, p.unknown
    ((1, 2, 3, 6, 8), (0, 7), (4, 5, 9))
    """
    caller = "operational"
    universe, source = universe_of(caller, "classes", classes)
    sizes = {"known": n_known, "surrogate": n_surrogate, "unknown": n_unknown}
    about: dict[str, Any] = {"source": source, "classes": universe, "n_tests": n_tests}
    about["validation"] = _check.open_unit(caller, "validation", validation)
    about["unknowns"] = unknowns
    return _drawn(caller, [(universe, sizes)], repeats, rng, **about)


def _drawn(
    caller: str,
    parts: list[tuple[tuple[Class, ...], dict[str, int]]],
    repeats: int | None,
    rng: Any,
    **about: Any,
) -> Any:
    """Draw protocols: of each universe disjoint parts of these sizes."""
    for universe, sizes in parts:
        for part, size in sizes.items():
            _check.positive_int(caller, f"n_{part}", size)
        if sum(sizes.values()) > len(universe):
            name = " + ".join(f"n_{part}" for part in sizes)
            rule = f"at most {len(universe)}, the number of classes"
            _check.fail(caller, name, rule, sum(sizes.values()))
    stream = Stream(caller, rng)

    def one() -> Protocol:
        drawn: dict[str, Any] = {}
        for universe, sizes in parts:
            chosen = stream.choose(universe, *sizes.values())
            drawn |= dict(zip(sizes, chosen, strict=True))
        return Protocol(**drawn, **about, seed=stream.seed(), name=caller)

    if repeats is None:
        return one()
    n = _check.positive_int(caller, "repeats", repeats)
    return Draws(tuple(one() for _ in range(n)))


def universe_of(caller: str, name: str, value: Any) -> tuple[tuple[Class, ...], str]:
    """Return the classes to draw from, and the name of their data set."""
    if hasattr(value, "classes"):  # a data set
        source = getattr(value, "label_set", "") or getattr(value, "name", "")
        return class_list(caller, name, value.classes), str(source)
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(range(_check.positive_int(caller, name, value))), ""
    classes = class_list(caller, name, value)
    if not classes:
        _check.fail(caller, name, "non-empty", "no classes")
    return classes, ""
