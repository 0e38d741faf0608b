"""When a connection is encrypted, and what is checked."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from projectionist.core.errors import SettingsError
from projectionist.core.settings.settings import Nats, Postgres
from projectionist.core.tls import context, is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1", "/run/postgresql"])
def test_this_machine_is_spoken_to_in_plain_text_by_default(host: str) -> None:
    assert is_loopback(host)
    assert context(Postgres(), [host], name="postgres") is None


@pytest.mark.parametrize("host", ["db.example", "10.0.0.1", "localhost.example", "127.0.0.1.example"])
def test_any_other_host_is_checked_by_default(host: str) -> None:
    made = context(Nats(), ["127.0.0.1", host], name="nats")
    assert made is not None
    assert made.check_hostname
    assert made.verify_mode is ssl.CERT_REQUIRED


def test_the_settings_have_the_last_word() -> None:
    assert context(Postgres(tls="disable"), ["db.example"], name="postgres") is None
    full = context(Postgres(tls="verify-full"), ["127.0.0.1"], name="postgres")
    assert full is not None
    assert full.check_hostname
    unchecked = context(Postgres(tls="require"), ["127.0.0.1"], name="postgres")
    assert unchecked is not None
    assert unchecked.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("keys", [{"ca_file": "x.pem"}, {"cert_file": "x.pem", "key_file": "y.pem"}])
def test_a_file_that_is_missing_or_no_certificate_is_named(tmp_path: Path, keys: dict[str, Any]) -> None:
    (tmp_path / "y.pem").write_text("no key")
    named: dict[str, Any] = {key: str(tmp_path / name) for key, name in keys.items()}
    with pytest.raises(SettingsError, match=r"nats: the TLS files .*x\.pem"):
        context(Nats(tls="verify-full", **named), [], name="nats")
