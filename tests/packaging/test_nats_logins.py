"""Each way to log in at NATS works with the plain wheel, which has no extra; each wrong one is told in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import nkeys  # type: ignore[import-untyped]  # it comes without types
import pytest
import trustme
from tests.support.installed import Installed, built
from tests.support.nats_server import address, jetstream, public, seed, server, signed_in
from tests.support.scrape import free_port

pytestmark = [pytest.mark.asyncio, pytest.mark.deadline(300)]

APP = """
from projectionist.api import App, NatsPublish

from orders.events import orders
from orders.projections import OrderSummary

app = App(projections=[OrderSummary], streams=[orders], providers={"told": NatsPublish})
"""
TOLD = '\n[providers.told]\nstream = "ORDERS"\nsubject = "orders.order.{aggregate}"\n'
REFUSED = "refuses these credentials"


class Login(msgspec.Struct, frozen=True):
    """A server's configuration, what logs in there, and what does not, each with what is said of it."""

    configuration: str
    right: dict[str, str]
    wrong: list[tuple[dict[str, str], str]]
    user: str = ""
    host: str = "127.0.0.1"

    def environment(self, url: str, given: dict[str, str]) -> dict[str, str]:
        place = url.split("://")[1].replace("127.0.0.1", self.host)
        user = given.get("user", self.user)
        own = {f"PROJECTIONIST_NATS__{key.upper()}": value for key, value in given.items() if key != "user"}
        return {"PROJECTIONIST_NATS__URL": f"nats://{user}{place}", **own}


def creds(folder: Path) -> Login:
    configuration = signed_in(folder)
    (folder / "others").mkdir()
    signed_in(folder / "others", first=10)
    (folder / "empty.creds").write_text("")
    return Login(
        configuration,
        {"creds_file": str(folder / "user.creds")},
        [
            ({"creds_file": str(folder / "others" / "user.creds")}, REFUSED),
            ({"creds_file": str(folder / "empty.creds")}, "is no credentials file"),
            ({"creds_file": str(folder / "nowhere.creds")}, "cannot be read: No such file"),
        ],
    )


def nkey(folder: Path) -> Login:
    for name, number in (("right", 1), ("other", 2)):
        (folder / name).write_bytes(seed(number, nkeys.PREFIX_BYTE_USER) + b"\n")
    (folder / "account").write_bytes(seed(3, nkeys.PREFIX_BYTE_ACCOUNT))
    known = public(seed(1, nkeys.PREFIX_BYTE_USER))
    return Login(
        f"authorization {{ users = [{{ nkey: {known} }}] }}",
        {"nkey_file": str(folder / "right")},
        [
            ({"nkey_file": str(folder / "other")}, REFUSED),
            ({"nkey_file": str(folder / "account")}, "holds no user's seed"),
            ({"nkey_file": str(folder / "nowhere")}, "cannot be read: No such file"),
        ],
    )


def token(_: Path) -> Login:
    return Login(
        "authorization { token: right }", {"token": "right"}, [({"token": "c4n4ry"}, REFUSED), ({}, REFUSED)]
    )


def password(_: Path) -> Login:
    return Login(
        "authorization { users = [{ user: shop, password: right }] }",
        {"user": "shop:right@"},
        [({"user": "shop:c4n4ry@"}, REFUSED), ({"user": ""}, REFUSED)],
    )


def mutual_tls(folder: Path) -> Login:
    ours, others = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, issued in (
        ("server", ours.issue_cert("localhost")),
        ("shop", ours.issue_cert("shop@example.org")),
        ("stranger", others.issue_cert("shop@example.org")),
    ):
        issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))

    def with_files(name: str) -> dict[str, str]:
        return {
            "tls": "verify-full",
            "ca_file": str(folder / "ca.pem"),
            "cert_file": str(folder / f"{name}.pem"),
            "key_file": str(folder / f"{name}.key"),
        }

    files = f'cert_file: "{folder}/server.pem", key_file: "{folder}/server.key", ca_file: "{folder}/ca.pem"'
    return Login(
        f"tls {{ {files}, verify: true }}",
        with_files("shop"),
        [
            (with_files("stranger"), "NATS at"),
            ({"tls": "verify-full", "ca_file": str(folder / "ca.pem")}, "NATS at"),
            (with_files("shop") | {"ca_file": str(folder / "stranger.pem")}, "certificate verify failed"),
            (with_files("nowhere"), "the TLS files"),
        ],
        host="localhost",
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    return Installed(folder / "venv", built(folder / "dist"))


@pytest.mark.parametrize("way", [creds, nkey, token, password, mutual_tls], ids=lambda way: way.__name__)
async def test_the_plain_wheel_logs_in_and_says_in_a_sentence_where_it_cannot(
    installed: Installed, tmp_path: Path, database: str, way: Callable[[Path], Login]
) -> None:
    shop, keys = tmp_path / "shop", tmp_path / "keys"
    shop.mkdir()
    keys.mkdir()
    login = way(keys)
    await installed.call("init", cwd=shop)
    (shop / "orders" / "app.py").write_text(APP)
    with (shop / "projectionist.toml").open("a") as file:
        file.write(TOLD)
    with server(tmp_path / "nats", jetstream(tmp_path / "nats") + login.configuration) as running:
        url = await address(running)
        database_env = {"PROJECTIONIST_POSTGRES__URL": database}
        env = login.environment(url, login.right) | database_env
        await installed.call("migrate", "--streams", cwd=shop, **env)
        assert "LOOK  nats" not in (await installed.call("doctor", cwd=shop, code="03", **env)).out
        async with (
            installed.serving(free_port(), "run", cwd=shop, **env),
            installed.serving(free_port(), "relay", cwd=shop, **env),
        ):
            pass
        for given, says in login.wrong:
            env = login.environment(url, given) | database_env
            looked = await installed.call("doctor", cwd=shop, code="3", **env)
            assert says in looked.out, looked.out
            for said in (
                looked,
                *[await installed.call(one, cwd=shop, code="1", **env) for one in ("run", "relay")],
            ):
                text = said.out + said.err
                assert "Traceback" not in text, text
                assert "c4n4ry" not in text
                if said is not looked:
                    assert [
                        line for line in said.err.splitlines() if line.startswith("error: ") and says in line
                    ]
