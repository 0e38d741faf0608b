"""What the doctor says of a file of settings that holds a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from projectionist.ops.doctor import settings_file

CANARY = "c4nary"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (f'[postgres]\nurl = "postgresql://shop:{CANARY}@h/d"', "postgres.url"),
        (f'[postgres]\nurl = "postgresql://h/d?password={CANARY}"', "postgres.url"),
        (f'[nats]\nurl = ["nats://h", "nats://{CANARY}@h"]', "nats.url"),
        (f'[nats]\ntoken = "{CANARY}"', "nats.token"),
        ('[postgres]\nurl = "postgresql://shop@h/d"\npassword_file = "/x"\n[nats]\nurl = ["nats://h"]', ""),
        ("", ""),
    ],
)
def test_a_secret_that_every_user_may_read_is_told_of(tmp_path: Path, text: str, held: str) -> None:
    file = tmp_path / "projectionist.toml"
    file.write_text(text)
    for mode, wanted in ((0o644, "attention" if held else "well"), (0o640, "well"), (0o600, "well")):
        file.chmod(mode)
        [check] = settings_file.checks(file)
        assert check.level == wanted
        assert CANARY not in check.found
        assert wanted == "well" or f"holds {held}" in check.found


def test_without_a_file_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert settings_file.checks(tmp_path / "projectionist.toml") == []
