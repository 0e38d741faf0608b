"""One name for one thing: a class name is there once, and each word of a public name is in the glossary or a list.

Public names are modules, classes, what `__all__` lists, settings, commands with their options, and metrics. The shop of
the demonstration and the benchmarks name what they sell and measure, and are left out.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.settings import settings
from projectionist.core.telemetry import instruments
from projectionist.ops import main

ROOT = Path(__file__).parents[3]
PARTS = ("runner", "projections", "outbox", "migrations", "ops")
GLOSSARY = ROOT / "docs" / "glossary.md"
VOCABULARY = Path(__file__).with_name("vocabulary.txt")
OTHERS = {"template", "demo", "bench"}
NO_VERBS = set(
    re.findall(
        r"\w+",
        "a an the this that these those its it what whose which who whether where when why how one some another each "
        "every all both everything something somebody nothing nobody none true false as so of for from in at on by "
        "with without until while once before after around inside under never more now",
    )
)
"""A docstring that begins with one of these says what a function is about, not what it does."""


def words(name: str) -> list[str]:
    """The words of a name in any style."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return [word.lower() for word in re.findall(r"[A-Za-z]+", spaced)]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """The product's modules, each under its path below `projectionist`."""
    for part in PARTS:
        home = ROOT / part / "projectionist"
        for file in sorted(home.rglob("*.py")):
            path = file.relative_to(home)
            if not OTHERS & set(path.parts):
                yield path, ast.parse(file.read_text("utf-8"))


def of_code() -> Iterator[str]:
    """Modules, classes, and what `__all__` lists."""
    for path, tree in modules():
        yield from (part for part in (*path.parts[:-1], path.stem) if not part.startswith("__"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name
        for line in tree.body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__":
                yield from ast.literal_eval(line.value)


def of_settings() -> Iterator[str]:
    """The keys of every section."""
    found: list[Any] = [RetryPolicy, *vars(settings).values()]
    for section in found:
        if isinstance(section, type) and issubclass(section, msgspec.Struct):
            yield from (field.name for field in msgspec.structs.fields(section))


def of_commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Commands, the commands below them, and their options."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield name
                yield from of_commands(inner)


def public() -> dict[str, str]:
    """Every word of a public name, and one name that has it."""
    given = (metric.name for metric in instruments.METRICS.values())
    every = [*of_code(), *of_settings(), *of_commands(main.parser()), *given]
    return {word: name for name in every for word in words(name)}


def forms(word: str) -> set[str]:
    """The ways a word is inflected in names: settle, settles, settled, settling, settler."""
    stems = {word, word + word[-1]} | ({word[:-1]} if word.endswith(("e", "y")) else set())
    return {word} | {
        stem + end for stem in stems for end in ("s", "es", "ies", "d", "ed", "ied", "ing", "er", "or")
    }


def glossary() -> list[str]:
    """The words that the glossary explains, and the states it lists."""
    text = GLOSSARY.read_text("utf-8")
    explained = [
        re.sub(r"[\\`*]", "", line.split("|")[1]) for line in text.splitlines() if line.startswith("| ")
    ]
    states = re.findall(r"`(\w+)`", text.partition("## States")[2].partition("Other systems")[0])
    return [word for entry in explained if entry.strip() != "word" for word in words(entry)] + [
        word for state in states for word in words(state)
    ]


def vocabulary() -> list[str]:
    """The words that need no explanation here."""
    lines = VOCABULARY.read_text("utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


def test_each_word_of_a_public_name_is_in_the_glossary_or_known_from_elsewhere() -> None:
    known = {form for word in (*glossary(), *vocabulary()) for form in forms(word)}

    unknown = {word: name for word, name in public().items() if word not in known}

    assert unknown == {}, (
        f"put a new noun into docs/glossary.md, or take a word of it; {VOCABULARY.name} has all others"
    )


def test_the_list_holds_no_word_that_the_glossary_explains_or_nobody_uses() -> None:
    used, explained, listed = public(), set(glossary()), vocabulary()

    assert [word for word, times in Counter(listed).items() if times > 1] == []
    assert [word for word in listed if not forms(word) & set(used)] == [], (
        f"delete them from {VOCABULARY.name}"
    )
    assert [word for word in listed if word in explained] == []


def test_the_glossary_explains_each_entry_once() -> None:
    lines = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| ")]
    entries = defaultdict(list)
    for line in lines:
        for name in line.split("|")[1].split(","):
            entries[name.strip().lower()].append(line)

    assert {name: found for name, found in entries.items() if len(found) > 1 and name != "word"} == {}


def test_each_class_name_is_there_once() -> None:
    found = defaultdict(set)
    for part in PARTS:
        for file in (ROOT / part / "projectionist").rglob("*.py"):
            if "template" not in file.parts:
                for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(node, ast.ClassDef):
                        found[node.name].add(str(file.relative_to(ROOT)))

    assert {name: sorted(files) for name, files in found.items() if len(files) > 1} == {}


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    begun = {
        f"{path}:{node.lineno} {node.name}": text.split()[0].rstrip(",.:;")
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node))
    }
    assert len(begun) > 1000

    assert {
        place: word
        for place, word in begun.items()
        if word.lower() in NO_VERBS or not (word.isalpha() and word.istitle())
    } == {}, "say first what the function does: Return, Write, Wait until, …"


def test_each_room_says_what_it_owns_what_it_may_import_and_which_file_to_read_first() -> None:
    rooms = [
        file
        for part in PARTS
        for file in (ROOT / part / "projectionist").glob("*/*/__init__.py")
        if "template" not in file.parts
    ]
    assert len(rooms) > 30
    for file in rooms:
        said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        assert "may import" in said, file
        first = said.rpartition("Read `")[2].partition("`")[0]
        assert (file.parent / f"{first}.py").is_file(), file


def test_the_name_of_a_test_has_at_most_80_characters() -> None:
    names = {
        node.name
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    assert len(names) > 1000

    assert sorted(name for name in names if len(name) > 80) == []
