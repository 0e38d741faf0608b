"""TLS to PostgreSQL. The embedded server is built without it, so a proxy before the real server speaks it."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from projectionist.core.postgres.connections import DatabaseRefusedError, connect
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres

pytestmark = pytest.mark.asyncio

SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


async def pump(reader: StreamReader, writer: StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def encrypted(
    database: str, certificate: trustme.LeafCert, *, demands: trustme.CA | None = None
) -> AsyncIterator[Url]:
    """The URL of a proxy that insists on TLS, shows `certificate` and passes everything on to `database`.

    `demands` is the authority that must have signed the client's own certificate.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    if demands:
        demands.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    parts = urlsplit(database)
    assert parts.hostname is not None

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            assert await reader.readexactly(8) == SSL_REQUEST
            writer.write(b"S")
            await writer.start_tls(context)
            onward = await asyncio.open_connection(parts.hostname, parts.port)
            await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield Url(parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl())


@pytest.fixture
def authority(tmp_path: Path) -> tuple[trustme.CA, str]:
    """A certificate authority, and the file that makes it trusted."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made, str(tmp_path / "ca.pem")


async def test_a_checked_connection_works_and_is_encrypted(
    database: str, authority: tuple[trustme.CA, str]
) -> None:
    ca, ca_file = authority
    async with encrypted(database, ca.issue_cert("127.0.0.1")) as url:
        postgres = Postgres(url=url, tls="verify-full", ca_file=ca_file)
        connection = await connect(postgres, application_name="test")
        assert await connection.fetchval("select 1") == 1
        await connection.close()


@pytest.mark.parametrize(
    ("issue", "trusted"),
    [
        (lambda ca: ca.issue_cert("db.example"), True),
        (lambda ca: ca.issue_cert("127.0.0.1"), False),
        (lambda _: trustme.CA().issue_cert("127.0.0.1"), True),
    ],
    ids=["another name", "an authority nobody knows", "another authority"],
)
async def test_a_certificate_that_proves_nothing_is_refused(
    database: str,
    authority: tuple[trustme.CA, str],
    issue: Callable[[trustme.CA], trustme.LeafCert],
    trusted: bool,
) -> None:
    ca, ca_file = authority
    async with encrypted(database, issue(ca)) as url:
        postgres = Postgres(url=url, tls="verify-full", ca_file=ca_file if trusted else None)
        with pytest.raises(DatabaseRefusedError, match=r"certificate that is not trusted.*postgres\.ca_file"):
            await connect(postgres, application_name="test")


async def test_require_encrypts_and_asks_nobody(database: str) -> None:
    async with encrypted(database, trustme.CA().issue_cert("db.example")) as url:
        connection = await connect(Postgres(url=url, tls="require"), application_name="test")
        assert await connection.fetchval("select 1") == 1
        await connection.close()


async def test_a_certificate_of_our_own_is_shown(
    database: str, authority: tuple[trustme.CA, str], tmp_path: Path
) -> None:
    ca, ca_file = authority
    mine = ca.issue_cert("shop.example")
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "shop.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "shop.key"))
    async with encrypted(database, ca.issue_cert("127.0.0.1"), demands=ca) as url:
        postgres = Postgres(
            url=url,
            tls="verify-full",
            ca_file=ca_file,
            cert_file=str(tmp_path / "shop.pem"),
            key_file=str(tmp_path / "shop.key"),
        )
        connection = await connect(postgres, application_name="test")
        assert await connection.fetchval("select 1") == 1
        await connection.close()
