"""Mutants of a source file: one operator, number or statement changed.

Not mutated: text (messages, names), annotations, decorators, what is raised,
`strict=True` of zip, which only raises, and `copy=False`: a copy has the same numbers.
"""

import ast
import contextlib
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = [
    *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all")),
    *(("floor", "ceil"), ("left", "right"), ("log", "log1p"), ("exp", "expm1")),
    *(("logical_and", "logical_or"), ("zeros", "ones"), ("cumsum", "cumprod")),
]
_OTHER = dict(_PAIRS) | {b: a for a, b in _PAIRS}


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of one module."""

    path: Path
    line: int
    name: str
    """The function, and the code before and after, wherever its line moves to."""
    tree: ast.Module

    @property
    def module(self) -> str:
        """The name of its module."""
        return module_of(self.path)


def module_of(path: Path) -> str:
    """Return the name of the module that a file of `src` holds."""
    parts = path.resolve().relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a source file."""
    tree = ast.parse(path.read_text("utf-8"))
    times: Counter[str] = Counter()
    for where, statement, place, around in _places(tree):
        for before, after, change in _changes(place):
            # A number alone says little: it is shown with what it is a part of.
            is_part = isinstance(place, ast.Constant) and around is not statement
            before = ast.unparse(around) if is_part else before  # noqa: PLW2901
            # The tree is copied with the change made; then the change is undone.
            with change:
                mutated = copy.deepcopy(tree)
                after = ast.unparse(around) if is_part else after  # noqa: PLW2901
            name = f"{where}: {before} -> {after}"
            times[name] += 1
            yield Mutant(
                path=path,
                line=getattr(place, "lineno", statement.lineno),
                name=name if times[name] == 1 else f"{name} ({times[name]})",
                tree=ast.fix_missing_locations(mutated),
            )


def _places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.AST, ast.AST]]:
    """Yield everything to be mutated: its function, its statement, it, its parent."""

    def walk(node: ast.AST, where: str, statement: Any, around: Any) -> Iterator[Any]:
        if isinstance(node, ast.stmt):
            statement = node
        if _is_text(node):
            if isinstance(node, ast.Raise):
                yield where, statement, node, around
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}".lstrip(".")
            inside: list[ast.AST] = list(node.body)
            if not isinstance(node, ast.ClassDef):
                inside += [x for x in node.args.defaults + node.args.kw_defaults if x]
        elif isinstance(node, ast.AnnAssign):
            inside = [node.value] if node.value else []
        else:
            if statement is not None:
                yield where, statement, node, around
            inside = list(ast.iter_child_nodes(node))
        if not isinstance(node, ast.UnaryOp | ast.Slice):  # -1 or 1: say little, too
            around = node
        for child in inside:
            yield from walk(child, where, statement, around)

    for top in tree.body:
        yield from walk(top, "", None, tree)


def _is_text(node: ast.AST) -> bool:
    """Whether it is there for readers (messages, imports), or for speed."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="msg" | "__all__" | "remedy" | "rule")]):
            return True
        case ast.Expr(value=ast.Constant(value=str())):  # a docstring
            return True
        case ast.Call(func=ast.Attribute(attr="must")):  # words of an error
            return True
        case (
            ast.keyword(arg="copy", value=ast.Constant(value=False))
            | ast.keyword(arg="strict")
        ):
            return True
    return False


Change = tuple[str, str, contextlib.AbstractContextManager[None]]


def _changes(node: ast.AST) -> Iterator[Change]:  # noqa: PLR0912  # one case a kind
    """Yield what can be changed at a node: before, after, and the change itself."""
    match node:
        case ast.Compare(ops=[op]):
            for other in _COMPARISONS.get(type(op), []):
                yield _with(node, "ops", [other()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _OPERATORS:
            yield _with(node, "op", _OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield _with(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Invert() | ast.Not(), operand=inner):
            if not isinstance(inner, ast.Constant):
                yield _instead(node, inner)
        case ast.Constant(value=bool(value)):
            yield _with(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield _with(node, "value", value + 1)
        case ast.Constant(value=float(value)):
            yield _with(node, "value", value + 1 if value + 1 != value else 1.0)
        case ast.Constant(value=str(value)) if value in _OTHER:
            yield _with(node, "value", _OTHER[value])
        case ast.Call(func=ast.Attribute(attr=name)) if name in _OTHER:
            yield _with(node.func, "attr", _OTHER[name], shown=node)
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER:
            yield _with(node.func, "id", _OTHER[name], shown=node)
        case ast.Raise() | ast.Break() | ast.Continue():
            yield _instead(node, ast.Pass())
        case ast.Expr(value=ast.Call()):
            yield _instead(node, ast.Pass())
    if isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(
        node.test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr
    ):
        test = node.test
        yield _with(node, "test", ast.UnaryOp(ast.Not(), test), shown=node, words=test)


def _with(
    node: Any,
    field: str,
    value: Any,
    *,
    shown: ast.AST | None = None,
    words: ast.AST | None = None,
) -> Change:
    shown = node if shown is None else shown
    old = getattr(node, field)

    def text() -> str:
        if words is not None:
            return ast.unparse(getattr(node, field))
        return ast.unparse(shown)

    before = text()
    setattr(node, field, value)
    after = text()
    setattr(node, field, old)

    @contextlib.contextmanager
    def change() -> Iterator[None]:
        setattr(node, field, value)
        try:
            yield
        finally:
            setattr(node, field, old)

    return before, after, change()


def _instead(node: ast.AST, other: ast.AST) -> Change:
    """Put another node in the place of one."""
    before, after = ast.unparse(node), ast.unparse(other)
    kind, fields = type(node), dict(vars(node))

    @contextlib.contextmanager
    def change() -> Iterator[None]:
        node.__class__ = type(other)  # type: ignore[assignment]
        node.__dict__ = dict(vars(other))
        ast.copy_location(node, ast.Pass(lineno=fields["lineno"], col_offset=0))
        try:
            yield
        finally:
            node.__class__ = kind  # type: ignore[assignment]
            node.__dict__ = fields

    return before.partition("\n")[0], after, change()
