"""Structs of many fields are made by the names of the fields: one that is inserted later moves no other's value."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = ("runner", "projections", "outbox", "migrations", "ops")
MOST = 5
"""So many fields a reader of a call keeps apart by their places."""


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the product's modules."""
    return {
        file: ast.parse(file.read_text("utf-8"))
        for part in PARTS
        for file in (ROOT / part / "projectionist").rglob("*.py")
        if "template" not in file.parts
    }


@cache
def classes() -> dict[str, ast.ClassDef]:
    """Return the product's classes by name, which another test holds to be there once."""
    return {
        node.name: node
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def name_of(node: ast.expr) -> str:
    """Return the last name of what is called or inherited from."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_struct(node: ast.ClassDef) -> bool:
    """Return whether fields make up the constructor of a class."""
    parents = [name_of(base) for base in node.bases]
    return (
        any(name_of(one) == "dataclass" for one in node.decorator_list)
        or any(parent in {"Struct", "NamedTuple"} for parent in parents)
        or any(
            is_struct(classes()[parent]) for parent in parents if parent in classes() and parent != node.name
        )
    )


def fields(node: ast.ClassDef) -> list[str]:
    """Return the fields of a struct, those of its parents first."""
    above = [
        classes()[name] for base in node.bases if (name := name_of(base)) in classes() and name != node.name
    ]
    own = [
        str(one.target.id)
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and "ClassVar" not in ast.unparse(one.annotation)
    ]
    return [field for parent in above for field in fields(parent)] + own


@cache
def foreign(tree: ast.Module) -> set[str]:
    """Return the names that a module has from other projects: classes there may be called as ours are."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("projectionist")
        for alias in node.names
    }


def test_no_struct_of_more_than_five_fields_is_made_by_position() -> None:
    large = {
        name: len(fields(node))
        for name, node in classes().items()
        if is_struct(node) and len(fields(node)) > MOST
    }
    assert large["Delivery"] > MOST
    assert large["LockedPosition"] > MOST  # inherited ones count
    by_position = [
        f"{file.relative_to(ROOT)}:{node.lineno} {name_of(node.func)}"
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and name_of(node.func) in large.keys() - foreign(tree)
    ]

    assert by_position == []
