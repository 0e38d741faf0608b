"""Source files as syntax trees: the nodes of functions and classes, and the statements that bind a module's names.

Trees are written out in a form of our own that leaves out what is empty: `ast.dump` and bytecode change with Python's
minor versions.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FunctionType

_SILENT = ("type_comment", "kind", "ctx", "type_params")
_ANNOTATIONS = ("returns", "annotation")
_BLOCKS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


class SourceFile:
    """One file: its functions, its classes, and the statements of its module by the names they bind or change."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions: dict[tuple[str, int], list[ast.AST]] = {}
        """By name and first line, decorators counted in, as code objects have it."""
        self.classes: dict[str, list[ast.ClassDef]] = {}
        """By qualified name."""
        self.bindings: dict[str, list[ast.stmt]] = {}
        self.stars: list[ast.ImportFrom] = []
        self._collect(tree, "")
        for statement in tree.body:
            for name in dict.fromkeys(bound(statement)):
                self.bindings.setdefault(name, []).append(statement)
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                self.stars.append(statement)

    def _collect(self, node: ast.AST, prefix: str) -> None:
        for inner in ast.iter_child_nodes(node):
            below = prefix
            if isinstance(inner, _FUNCTIONS):
                first = min([inner.lineno, *(one.lineno for one in inner.decorator_list)])
                self.functions.setdefault((inner.name, first), []).append(inner)
                below = f"{prefix}{inner.name}.<locals>."
            elif isinstance(inner, ast.Lambda):
                self.functions.setdefault(("<lambda>", inner.lineno), []).append(inner)
            elif isinstance(inner, ast.ClassDef):
                self.classes.setdefault(f"{prefix}{inner.name}", []).append(inner)
                below = f"{prefix}{inner.name}."
            self._collect(inner, below)


@lru_cache(maxsize=256)
def source(filename: str) -> SourceFile | None:
    """Parse the file as far as it can be read; None where there is no source."""
    # What `python -c` runs, and what any library compiles from a text, bear one name: neither is the other's source.
    lines = linecache.getlines(filename) if filename != "<string>" else []
    try:
        return SourceFile(ast.parse("".join(lines))) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def function_node(code: CodeType) -> ast.AST | None:
    """Return the node this code was compiled from; None where it cannot be told."""
    found = source(code.co_filename)
    nodes = found.functions.get((code.co_name, code.co_firstlineno), ()) if found else ()
    if len(nodes) > 1:  # lambdas in one line, perhaps in one another
        nodes = sorted((node for node in nodes if _holds(node, code)), key=_extent)[:1]
    return nodes[0] if len(nodes) == 1 else None


def _holds(node: ast.AST, code: CodeType) -> bool:
    """Return True where all of this code stands in the body of this lambda."""
    body = node.body if isinstance(node, ast.Lambda) else None
    places = [
        (first, column, last, end)
        for first, last, column, end in code.co_positions()
        if first and last and column is not None and end
    ]
    if body is None or not places:
        return False
    begins, ends = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    return all(begins <= (first, column) and (last, end) <= ends for first, column, last, end in places)


def _extent(node: ast.AST) -> tuple[int, int]:
    assert isinstance(node, ast.Lambda), "functions do not share a line"
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset


def class_node(cls: type) -> ast.ClassDef | None:
    """Return the node of a class; None where it cannot be told, as of one that a program has made."""
    found = source(file_of(cls))
    nodes: Sequence[ast.ClassDef] = found.classes.get(cls.__qualname__, ()) if found else ()
    if len(nodes) > 1:  # of several with one name, the one in which a method of the class stands
        lines = [code.co_firstlineno for code in _codes(cls)]
        nodes = [n for n in nodes if any(n.lineno <= line <= (n.end_lineno or 0) for line in lines)]
    return nodes[0] if len(nodes) == 1 else None


def file_of(cls: type) -> str:
    """Return the file of a class; empty where it is unknown. Methods may be made elsewhere: of a dataclass."""
    for code in _codes(cls):
        found = source(code.co_filename)
        if found is not None and cls.__qualname__ in found.classes:
            return code.co_filename
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or ""


def written(node: object, *, annotations: bool = False) -> str:
    """Write a syntax tree as text, without comments, docstrings and positions."""
    if isinstance(node, ast.AST):
        parts = [
            f"{name}={written(inner, annotations=annotations)}" for name, inner in _fields(node, annotations)
        ]
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return f"[{','.join(written(one, annotations=annotations) for one in node)}]"
    return ascii(node)  # which characters can be printed changes with Python


def bytecode(code: CodeType, doc: str | None = None) -> str:
    """Write code that has no source as text."""
    consts = code.co_consts[1:] if doc is not None and code.co_consts[:1] == (doc,) else code.co_consts
    inner = [bytecode(const) if isinstance(const, CodeType) else _constant(const) for const in consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _constant(value: object) -> str:
    """Write a constant as text; members of a set come in another order in each process."""
    return ascii(sorted(map(ascii, value)) if isinstance(value, frozenset) else value)


def references(node: ast.AST, *, annotations: bool) -> Iterator[tuple[str, ...]]:
    """Yield the names that a tree reads, each with the attributes that are taken of it: `("helpers", "vat")`."""
    stack: list[ast.AST] = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, ast.Attribute | ast.Name):
            path = dotted(one)
            if path:
                yield path
                continue
        for name, value in ast.iter_fields(one):
            if name in _ANNOTATIONS:
                if annotations:
                    stack.extend(_spelled(value))
            else:
                stack.extend(inner for inner in _listed(value) if isinstance(inner, ast.AST))


def is_docstring(statement: ast.stmt) -> bool:
    """Return True for a docstring in a class's body, or another text that no code reads."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _codes(cls: type) -> Iterator[CodeType]:
    for value in vars(cls).values():
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if isinstance(function, FunctionType) and function.__qualname__.startswith(f"{cls.__qualname__}."):
            yield function.__code__


def _fields(node: ast.AST, annotations: bool) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        if name in _SILENT or value is None or value == [] or (name in _ANNOTATIONS and not annotations):
            continue
        if name == "body" and isinstance(node, _BLOCKS) and ast.get_docstring(node, clean=False) is not None:
            value = value[1:]  # noqa: PLW2901 the docstring is the first statement
        yield name, value


def bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names of the module that a statement binds, or whose values it changes."""
    if isinstance(statement, _BLOCKS):
        yield statement.name
        for node in ast.walk(statement):
            if isinstance(node, ast.Global):
                yield from node.names
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (one.asname or one.name.partition(".")[0] for one in statement.names)
    elif isinstance(statement, ast.Expr):  # it may change its arguments
        if isinstance(statement.value, ast.Call):
            yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(
                node.ctx, ast.Load
            ):
                yield from _base(node)
            elif node is not statement and isinstance(node, _BLOCKS | ast.Import | ast.ImportFrom | ast.Expr):
                yield from bound(node)


def _base(node: ast.expr) -> Sequence[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return (node.id,) if isinstance(node, ast.Name) else ()


def dotted(node: ast.expr) -> tuple[str, ...]:
    """Return a name with the attributes taken of it; empty for another expression."""
    if isinstance(node, ast.Name):
        return (node.id,)
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else ()
    return (*inner, node.attr) if inner and isinstance(node, ast.Attribute) else ()


def _spelled(annotation: object) -> Iterator[ast.AST]:
    """Yield an annotation, also where it is written as a text."""
    if not isinstance(annotation, ast.AST):
        return
    yield annotation
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield ast.parse(node.value, mode="eval").body
            except SyntaxError:
                continue


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else (value,)
