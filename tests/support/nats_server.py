"""A nats-server of a test's own, with a configuration of its own, and the keys and files that clients log in with."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nkeys  # type: ignore[import-untyped]  # it comes without types
from tests.support.waiting import eventually

from projectionist.ops.embedded import binaries


@contextmanager
def server(folder: Path, configuration: str, *, port: int = -1) -> Iterator[Path]:
    """A server that listens on `port`, by default any; the folder of its ports file."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.ports"):
        old.unlink()
    (folder / "nats.conf").write_text(
        f'listen: "127.0.0.1:{port}"\nports_file_dir: "{folder}"\n{configuration}'
    )
    process = subprocess.Popen(
        [binaries.nats_server(), "-c", str(folder / "nats.conf"), "-l", str(folder / "log")]
    )
    try:
        yield folder
    finally:
        process.kill()
        process.wait()


def jetstream(folder: Path) -> str:
    """The line of a configuration that keeps streams in this folder."""
    return f'jetstream {{ store_dir: "{folder / "jetstream"}" }}\n'


def _first_url(ports: Path) -> str:
    text = ports.read_text("utf-8")
    return str(json.loads(text)["nats"][0]) if text else ""


async def address(folder: Path) -> str:
    """Where it listens, once it does."""

    async def told() -> str:
        return next(map(_first_url, folder.glob("*.ports")), "")  # noqa: ASYNC240  a small local file

    return await eventually(told)


def seed(number: int, prefix: int) -> bytes:
    """A key, the same for the same number."""
    return bytes(nkeys.encode_seed(bytes([number] * 32), prefix))


def public(key: bytes) -> str:
    """The public part of a key."""
    return str(nkeys.from_seed(bytearray(key)).public_key.decode())


def signed_in(folder: Path, *, first: int = 0) -> str:
    """What `nsc` writes: an operator signs an account, which signs a user, whose file is `user.creds`. Returns the
    lines of the configuration of a server that trusts the operator; `first` numbers the keys."""
    kinds = (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    operator, account, user = (seed(first + number, prefix) for number, prefix in enumerate(kinds))
    system = seed(first + len(kinds), nkeys.PREFIX_BYTE_ACCOUNT)
    names = ("subs", "data", "payload", "conn", "leaf", "imports", "exports")
    limits = dict.fromkeys((*names, "mem_storage", "disk_storage", "streams", "consumer"), -1)
    by_operator = token(operator, operator, {"type": "operator", "version": 2})
    by_account = token(operator, account, {"type": "account", "version": 2, "limits": limits})
    of_system = token(operator, system, {"type": "account", "version": 2})
    by_user = token(account, user, {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1})
    (folder / "user.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{by_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.decode()}\n------END USER NKEY SEED------\n"
    )
    known = f'{public(account)}: "{by_account}", {public(system)}: "{of_system}"'
    return (
        f'operator: "{by_operator}"\nsystem_account: {public(system)}\n'
        f"resolver: MEMORY\nresolver_preload: {{ {known} }}\n"
    )


def token(signer: bytes, subject: bytes, claims: dict[str, object]) -> str:
    """What one key says of another."""
    body = {
        "jti": "1",
        "iat": 1,
        "iss": public(signer),
        "name": "test",
        "sub": public(subject),
        "nats": claims,
    }
    parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, body]
    text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_encoded(nkeys.from_seed(bytearray(signer)).sign(text.encode()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
