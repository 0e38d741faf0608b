"""Where secrets are read from, and what is said when they cannot be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from projectionist.core.errors import SettingsError
from projectionist.outbox.providers import ProviderContext, SecretRef


def test_a_secret_comes_from_the_environment_or_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("canary\n")
    assert SecretRef(env="TOKEN").read({"TOKEN": "canary"}).reveal() == "canary"
    assert SecretRef(file=str(file)).read({}).reveal() == "canary"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "holds no secret"), (b"canary\xff", "not UTF-8"), (b"canary" * 20_000, "longer than")],
)
def test_a_file_that_holds_none_is_named_and_not_quoted(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=words) as caught:
        SecretRef(file=str(file)).read({})
    assert str(file) in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_secret_has_one_place() -> None:
    for section in ({}, {"env": "A", "file": "B"}):
        with pytest.raises(msgspec.ValidationError, match="one of the two"):
            msgspec.convert(section, SecretRef)


def test_what_surrounds_a_provider_does_not_show_the_environment() -> None:
    assert "canary" not in repr(ProviderContext(environ={"TOKEN": "canary"}))
