"""Build an ONNX graph with arithmetic expressions.

Every value is a matrix with one row per sample; numbers per sample are columns, shape
(n, 1), so that they broadcast.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _extras

with _extras.importing("openset.integrations.onnx", "onnx"):
    from onnx import NodeProto, TensorProto, helper, numpy_helper


class Graph:
    """Nodes and constants, in the order they were written."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._count = 0

    def name(self, hint: str) -> str:
        """Make a unique name."""
        self._count += 1
        return f"{self.prefix}{hint}_{self._count}"

    def constant(self, values: ArrayLike, dtype: Any = np.float32) -> "Var":
        """Add an array as a constant."""
        array = np.asarray(values, dtype=dtype)
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(array, name))
        return Var(self, name, array.dtype)

    def op(
        self, kind: str, *inputs: "Var", dtype: Any = None, **attributes: Any
    ) -> "Var":
        """Add a node with one output; its dtype is that of its first input."""
        [made] = self.ops(kind, *inputs, dtypes=[dtype], **attributes)
        return made

    def ops(
        self, kind: str, *inputs: "Var", dtypes: Sequence[Any], **attributes: Any
    ) -> list["Var"]:
        """Add a node with several outputs."""
        names = [self.name(kind.lower()) for _ in dtypes]
        node = helper.make_node(
            kind,
            [one.name for one in inputs],
            names,
            name=self.name(f"node_{kind}"),
            **attributes,
        )
        self.nodes.append(node)
        return [
            Var(self, name, inputs[0].dtype if dtype is None else np.dtype(dtype))
            for name, dtype in zip(names, dtypes, strict=True)
        ]


class Var:
    """A value in a graph; arithmetic on it adds nodes."""

    def __init__(self, graph: Graph, name: str, dtype: Any = np.float32) -> None:
        self.graph = graph
        self.name = name
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def _var(self, other: "Var | float") -> "Var":
        if isinstance(other, Var):
            return other
        return self.graph.constant(other, self.dtype)

    def _binary(self, kind: str, other: "Var | float", dtype: Any = None) -> "Var":
        return self.graph.op(kind, self, self._var(other), dtype=dtype)

    def __add__(self, other: "Var | float") -> "Var":
        return self._binary("Add", other)

    def __sub__(self, other: "Var | float") -> "Var":
        return self._binary("Sub", other)

    def __mul__(self, other: "Var | float") -> "Var":
        return self._binary("Mul", other)

    def __truediv__(self, other: "Var | float") -> "Var":
        return self._binary("Div", other)

    def __radd__(self, other: float) -> "Var":
        return self._var(other) + self

    def __rsub__(self, other: float) -> "Var":
        return self._var(other) - self

    def __rmul__(self, other: float) -> "Var":
        return self._var(other) * self

    def __matmul__(self, other: "Var") -> "Var":
        return self._binary("MatMul", other)

    def __neg__(self) -> "Var":
        return self.graph.op("Neg", self)

    def __lt__(self, other: "Var | float") -> "Var":
        return self._binary("Less", other, np.bool_)

    def __le__(self, other: "Var | float") -> "Var":
        return self._binary("LessOrEqual", other, np.bool_)

    def __gt__(self, other: "Var | float") -> "Var":
        return self._binary("Greater", other, np.bool_)

    def __ge__(self, other: "Var | float") -> "Var":
        return self._binary("GreaterOrEqual", other, np.bool_)

    def __and__(self, other: "Var") -> "Var":
        return self._binary("And", other)

    def __or__(self, other: "Var") -> "Var":
        return self._binary("Or", other)

    def __invert__(self) -> "Var":
        return self.graph.op("Not", self)

    def equals(self, other: "Var | float") -> "Var":
        """Compare entry by entry (``==`` must stay Python's own)."""
        return self._binary("Equal", other, np.bool_)

    def cast(self, dtype: Any) -> "Var":
        """Change the dtype."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.graph.op("Cast", self, to=kind, dtype=dtype)

    def exp(self) -> "Var":
        """Exponential."""
        return self.graph.op("Exp", self)

    def log(self) -> "Var":
        """Natural logarithm; of 0, -inf."""
        return self.graph.op("Log", self)

    def log1p(self) -> "Var":
        """Return ``log(1 + x)`` to full precision: ONNX has no operator for it."""
        more = self + 1.0
        # Kahan: the rounding of 1 + x is undone by x / ((1 + x) - 1).
        is_one = more.equals(1.0)
        step = where(is_one, self._var(1.0), more - 1.0)
        return where(is_one, self, more.log() * self / step)

    def expm1(self) -> "Var":
        """Return ``exp(x) - 1`` to full precision, for x <= 0."""
        power = self.exp()
        is_one, is_lost = power.equals(1.0), power.equals(0.0)
        inner = where(is_one | is_lost, self._var(0.5), power)
        found = (power - 1.0) * self / inner.log()
        return where(is_one, self, where(is_lost, self._var(-1.0), found))

    def sqrt(self) -> "Var":
        """Square root."""
        return self.graph.op("Sqrt", self)

    def abs(self) -> "Var":
        """Absolute value."""
        return self.graph.op("Abs", self)

    def is_nan(self) -> "Var":
        """Return where entries are NaN."""
        return self.graph.op("IsNaN", self, dtype=np.bool_)

    def _reduced(self, kind: str) -> "Var":
        axes = self.graph.constant([1], np.int64)
        return self.graph.op(kind, self, axes, keepdims=1)

    def sum(self) -> "Var":
        """Sum of each row, as a column."""
        return self._reduced("ReduceSum")

    def max(self) -> "Var":
        """Largest entry of each row, as a column."""
        return self._reduced("ReduceMax")

    def min(self) -> "Var":
        """Smallest entry of each row, as a column."""
        return self._reduced("ReduceMin")

    def norm(self) -> "Var":
        """Euclidean length of each row, as a column."""
        # Of numbers up to 1, so that squares do not overflow, nor all underflow. Not in
        # float64, which some runtimes of ONNX graphs do not have.
        scale = self.abs().max().or_zero().or_one()
        return scale * (self / scale)._reduced("ReduceL2")

    def or_one(self) -> "Var":
        """Return what is above 0, and 1 in place of the rest: to divide by."""
        return where(self > 0.0, self, self._var(1.0))

    def or_zero(self) -> "Var":
        """Return what is finite, and 0 in place of the rest: to subtract."""
        return where(self.abs() < math.inf, self, self._var(0.0))

    def unit(self) -> "Var":
        """Scale rows to length one; a zero row stays zero."""
        return self / self.norm().or_one()

    def logsumexp(self) -> "Var":
        """Return ``log(sum(exp(row)))`` without overflow, as a column."""
        top = self.max().or_zero()  # inf - inf is NaN
        return (self - top).exp().sum().log() + top

    def any(self) -> "Var":
        """Return which rows have a true entry, as a column."""
        return self.cast(np.int32).max() > 0

    def argmax(self) -> "Var":
        """Index of the largest entry of each row, the first of equal ones."""
        return self.graph.op("ArgMax", self, axis=1, keepdims=1, dtype=np.int64)

    def argmin(self) -> "Var":
        """Index of the smallest entry of each row, the first of equal ones."""
        return self.graph.op("ArgMin", self, axis=1, keepdims=1, dtype=np.int64)

    def pick(self, columns: "Var") -> "Var":
        """Return one entry of each row, as a column."""
        return self.graph.op("GatherElements", self, columns, axis=1)

    def flat(self) -> "Var":
        """Make a column a vector."""
        return self.graph.op("Squeeze", self, self.graph.constant([1], np.int64))

    def column(self) -> "Var":
        """Make a vector a column."""
        return self.graph.op("Unsqueeze", self, self.graph.constant([1], np.int64))

    def rows(self, places: "Var") -> "Var":
        """Return the rows of a table, given a column of indices."""
        return self.graph.op("Gather", self, places.flat(), axis=0)

    def entries(self, places: "Var") -> "Var":
        """Return the entries of a vector, given a column of indices, as a column."""
        return self.graph.op("Gather", self, places, axis=0)

    def columns(self, start: int, stop: int) -> "Var":
        """Return the columns from `start` to before `stop`."""
        ends = [self.graph.constant([end], np.int64) for end in (start, stop, 1)]
        return self.graph.op("Slice", self, ends[0], ends[1], ends[2])

    def width(self) -> "Var":
        """Return the number of columns, as a vector of one entry."""
        return self.graph.op("Shape", self, start=1, end=2, dtype=np.int64)

    def places(self) -> "Var":
        """Return the indices of the columns, as a vector."""
        graph = self.graph
        ends = [graph.constant(value, np.int64) for value in (0, 1)]
        width = graph.op("Squeeze", self.width())
        return graph.op("Range", ends[0], width, ends[1])

    def cumsum(self) -> "Var":
        """Sum each row up to every entry, that entry included."""
        return self.graph.op("CumSum", self, self.graph.constant(1, np.int64))

    def top(self, k: int | None = None) -> tuple["Var", "Var"]:
        """Return the `k` largest entries of each row, largest first, and their indices.

        Of equal entries, those with the lower index come first. By default all.
        """
        size = self.width() if k is None else self.graph.constant([k], np.int64)
        values, places = self.graph.ops(
            "TopK", self, size, dtypes=[self.dtype, np.int64], axis=1
        )
        return values, places


def where(condition: Var, yes: Var, no: Var) -> Var:
    """Choose entry by entry."""
    return condition.graph.op("Where", condition, yes, no, dtype=yes.dtype)


def lesser(a: Var, b: Var) -> Var:
    """Return the smaller one, entry by entry."""
    return a.graph.op("Min", a, b)


def larger(a: Var, b: Var) -> Var:
    """Return the larger one, entry by entry."""
    return a.graph.op("Max", a, b)


def squared_distances(rows: Var, bank: NDArray[Any]) -> Var:
    """Return squared distances of rows to the rows of a bank, by one product."""
    graph, dtype = rows.graph, rows.dtype
    lengths = (bank.astype(np.float64) ** 2).sum(axis=1)[None, :]
    products = rows @ graph.constant(bank.T, dtype)
    squared = (rows * rows).sum() + graph.constant(lengths, dtype) - 2.0 * products
    return larger(squared, graph.constant(0.0, dtype))
