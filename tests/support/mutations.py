"""Changes of a class or of what it leans on, each of one place in its sources."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator

Change = Callable[[ast.AST], bool]
"""Changes a node in place; whether there was anything to change."""

_DOCUMENTED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def constant(node: ast.AST) -> bool:
    """Another number or text."""
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(node, ast.Constant) or isinstance(value, bool) or not isinstance(value, int | str):
        return False
    node.value = f"{value}_" if isinstance(value, str) else value + 1
    return True


def operator(node: ast.AST) -> bool:
    """Another operator."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    elif isinstance(node, ast.Compare):
        node.ops = [ast.Eq() if isinstance(node.ops[0], ast.NotEq) else ast.NotEq()]
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    else:
        return False
    return True


def condition(node: ast.AST) -> bool:
    """The opposite condition."""
    if not isinstance(node, ast.If | ast.IfExp):
        return False
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return True


def statement_removed(node: ast.AST) -> bool:
    """The first statement of a block is gone."""
    if not isinstance(node, ast.FunctionDef | ast.If):
        return False
    at = 1 if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) else 0
    node.body = [*node.body[:at], *node.body[at + 1 :]] if len(node.body) > at + 1 else [ast.Pass()]
    return True


def statement_added(node: ast.AST) -> bool:
    """A block ends with a statement more."""
    if not isinstance(node, ast.FunctionDef | ast.If):
        return False
    node.body = [*node.body, ast.parse("1 / 1").body[0]]
    return True


def decorator_removed(node: ast.AST) -> bool:
    """The innermost decorator is gone."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or not node.decorator_list:
        return False
    node.decorator_list.pop()
    return True


def decorator_added(node: ast.AST) -> bool:
    """A decorator more."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    node.decorator_list = [*node.decorator_list, ast.parse("lambda it: it", mode="eval").body]
    return True


def field_added(node: ast.AST) -> bool:
    """A class has a field more."""
    if not isinstance(node, ast.ClassDef):
        return False
    node.body = [*node.body, ast.parse("further: int = 0").body[0]]
    return True


def field_renamed(node: ast.AST) -> bool:
    """A field has another name."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return False
    node.target.id += "_"
    return True


def field_retyped(node: ast.AST) -> bool:
    """A field has another type."""
    if not isinstance(node, ast.AnnAssign):
        return False
    node.annotation = ast.parse("float | None", mode="eval").body
    return True


def attribute(node: ast.AST) -> bool:
    """Another attribute is read or written."""
    if not isinstance(node, ast.Attribute):
        return False
    node.attr += "_"
    return True


def argument_removed(node: ast.AST) -> bool:
    """A call has an argument less."""
    if not isinstance(node, ast.Call) or not (node.keywords or node.args):
        return False
    (node.keywords or node.args).pop()
    return True


def default_added(node: ast.AST) -> bool:
    """An argument has a default, or another one."""
    if not isinstance(node, ast.FunctionDef | ast.Lambda) or not node.args.args:
        return False
    node.args.defaults = [ast.Constant(None)] * (1 if not node.args.defaults else len(node.args.args))
    return True


CHANGES: tuple[Change, ...] = (
    constant,
    operator,
    condition,
    statement_removed,
    statement_added,
    decorator_removed,
    decorator_added,
    field_added,
    field_renamed,
    field_retyped,
    attribute,
    argument_removed,
    default_added,
)


def sites(text: str) -> Iterator[tuple[Change, int]]:
    """Every change that can be made to a file, by its kind and the number of its node; docstrings are no code."""
    for change in CHANGES:
        nodes = list(ast.walk(ast.parse(text)))
        silent = [one.body[0] for one in nodes if isinstance(one, _DOCUMENTED) and ast.get_docstring(one)]
        texts = {id(inner) for one in silent for inner in ast.walk(one)}
        yield from (
            (change, number) for number, node in enumerate(nodes) if id(node) not in texts and change(node)
        )


def changed(text: str, change: Change, number: int) -> str:
    """The file with one change."""
    tree = ast.parse(text)
    change(next(itertools.islice(ast.walk(tree), number, None)))
    return ast.unparse(ast.fix_missing_locations(tree))
