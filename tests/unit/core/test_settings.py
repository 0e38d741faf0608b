"""Settings from file and environment, and what a wrong one is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import Secret
from projectionist.core.settings.settings import Policy, Settings, Telemetry, load

EXAMPLE = Path(__file__).parents[3] / "projectionist.example.toml"
CANARY = "c4n4ry"

Given = Callable[..., Settings]


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Loads a file's text with variables whose prefix is left out."""

    def loaded(text: str = "", **env: str) -> Settings:
        path = tmp_path / "projectionist.toml"
        path.write_text(text)
        return load(path, {f"PROJECTIONIST_{key}": value for key, value in env.items()})

    return loaded


def test_without_file_and_environment_the_defaults_hold() -> None:
    assert load(None, {}) == Settings()


def test_the_environment_goes_before_the_file_and_the_file_before_the_default(given: Given) -> None:
    settings = given("[batch]\nmax_rows = 10\nmax_ms = 20", BATCH__MAX_ROWS="30")
    assert (settings.batch.max_rows, settings.batch.max_ms) == (30, 20)
    assert settings.batch.max_bytes == Settings().batch.max_bytes


def test_every_kind_of_value_can_come_from_the_environment(given: Given) -> None:
    settings = given(
        NATS__URL="nats://one:4222, nats://two:4222",
        NATS__TOKEN="t",
        BATCH__MAX_MS="2.5",
        CONSUMER_DEFAULTS__IDENTITY_FIELDS="scanner_id,scan_id",
        CONSUMER_DEFAULTS__RETRY__ATTEMPTS="3",
        CONSUMERS__OrderSummary__HASH="canonical",
    )
    assert [url.reveal() for url in settings.nats.url] == ["nats://one:4222", "nats://two:4222"]
    assert settings.nats.token == Secret("t")
    assert settings.batch.max_ms == 2.5
    assert settings.policy("OrderSummary") == Policy(
        identity_fields=("scanner_id", "scan_id"),
        hash="canonical",
        retry=msgspec.structs.replace(Policy().retry, attempts=3),
    )


def test_a_consumer_overrides_the_defaults_key_by_key(given: Given) -> None:
    settings = given(
        """
        [consumer_defaults]
        hash = "canonical"
        [consumer_defaults.retry]
        attempts = 5
        [consumers.OrderSummary.retry]
        maximum_s = 7
        """
    )
    mine, others = settings.policy("OrderSummary"), settings.policy("CustomerSpend")
    assert (mine.hash, mine.retry.attempts, mine.retry.maximum_s) == ("canonical", 5, 7)
    assert (others.hash, others.retry.attempts, others.retry.maximum_s) == ("canonical", 5, 60)


def test_a_variable_means_the_consumer_of_the_file_whatever_its_capitals(given: Given) -> None:
    settings = given("[consumers.OrderSummary]\nack_wait_s = 60", CONSUMERS__ORDERSUMMARY__HASH="canonical")
    assert list(settings.consumers) == ["OrderSummary"]
    assert (settings.policy("OrderSummary").hash, settings.policy("OrderSummary").ack_wait_s) == (
        "canonical",
        60,
    )


WRONG: list[tuple[str, Mapping[str, str], str]] = [
    (
        "[batch]\nmax_row = 3",
        {},
        r"batch\.max_row \(.*\.toml\): no such key\. Did you mean 'max_rows'\? Allowed",
    ),
    ("batches = 3", {}, r"batches \(.*\.toml\): no such key\. Did you mean 'batch'\?"),
    (
        "",
        {"BATCH__MAX_ROW": "3"},
        r"batch\.max_row \(PROJECTIONIST_BATCH__MAX_ROW\): no such key.*'max_rows'",
    ),
    ("", {"BATCHES__MAX_ROWS": "3"}, r"batches \(PROJECTIONIST_BATCHES__MAX_ROWS\): no such key"),
    ("[batch]\nmax_rows = 'many'", {}, r"batch\.max_rows \(.*\.toml\): expected a whole number, 1 or more"),
    ("[batch]\nmax_rows = '3'", {}, r"expected a whole number"),
    ("[batch]\nmax_rows = true", {}, r"expected a whole number"),
    ("[batch]\nmax_rows = 0", {}, r"expected a whole number, 1 or more"),
    (
        "",
        {"BATCH__MAX_ROWS": "many"},
        r"batch\.max_rows \(PROJECTIONIST_BATCH__MAX_ROWS\): expected a whole number",
    ),
    ("[run]\nshutdown_s = nan", {}, r"run\.shutdown_s .*: expected a number, 0 or more"),
    ("app = 'shop'", {}, r"app .*: expected module:name, like shop\.app:app"),
    ("[nats]\nurl = 'nats://one'", {}, r"nats\.url .*: expected a list, each item a URL"),
    ("[nats]\nurl = ['one:4222']", {}, r"nats\.url .*: expected a list, each item a URL"),
    ("[nats]\nurl = ['http://one']", {}, r"nats .*: url http://one is not nats://host:port"),
    ("[nats]\ntls = 'off'", {}, r"nats\.tls .*: expected 'auto' or 'verify-full' or 'require' or 'disable'"),
    ("[consumers.A]\nhash = 'md5'", {}, r"consumers\.A\.hash .*: expected 'raw' or 'canonical'"),
    ("consumers = 3", {}, r"consumers \(.*\): expected a section of keys"),
    ("[consumers]\nA = 3", {}, r"consumers\.A \(.*\): expected a section of keys"),
    ("batch = 3", {}, r"batch \(.*\): expected a section of keys"),
    ("providers.email = 3", {}, r"providers\.email \(.*\): expected a section"),
    ("app = 'a:b'", {"APP__X": "3"}, r"PROJECTIONIST_APP__X: app is not a section"),
    ("[postgres]\nschema = 'pg_mine'", {}, r"postgres .*: schema: PostgreSQL keeps names"),
    (f"[postgres]\nschema = '{'x' * 64}'", {}, r"postgres .*: schema .* has 64 bytes, PostgreSQL keeps 63"),
    (
        "[postgres]\nurl = 'mysql://h/db'",
        {},
        r"postgres .*: url begins with mysql://, expected postgresql://",
    ),
    ("[postgres]\nurl = 'postgresql:///db'", {}, r"postgres .*: url names no host"),
    ("[postgres]\nurl = 'postgresql://h/db?sslmode=prefer'", {}, r"url holds sslmode.*use tls"),
    ("[postgres]\nurl = 'postgresql://h/db?service=x'", {}, r"url holds service"),
    ("[postgres]\ncert_file = 'c.pem'", {}, r"cert_file and key_file belong together"),
    ("[postgres]\ntls = 'disable'\nca_file = 'c.pem'", {}, r"'disable' contradicts ca_file"),
    ("[postgres]\ntls = 'require'\nca_file = 'c.pem'", {}, r"checks no certificate.*use 'verify-full'"),
    (
        "[nats]\nurl = ['tls://h']\ntls = 'disable'",
        {},
        r"'disable' contradicts a url that begins with tls://",
    ),
    (
        "[nats]\ncreds_file = 'c'",
        {"NATS__TOKEN": "t"},
        r"nats \(.*\.toml, PROJECTIONIST_NATS__TOKEN\): creds_file and token contradict each other",
    ),
    (
        "[consumer_defaults.retry]\ninitial_s = 90",
        {},
        r"retry .*: initial_s \(90\) is more than maximum_s \(60\)",
    ),
    ("[consumers.A]\nmax_event_bytes = 99999999", {}, r"max_event_bytes of A .* more than batch\.max_bytes"),
    ("= 3", {}, r"projectionist\.toml is not TOML: .*line 1"),
]


@pytest.mark.parametrize(("text", "env", "told"), WRONG)
def test_a_wrong_setting_names_key_place_and_what_is_allowed(
    given: Given, text: str, env: Mapping[str, str], told: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        given(text, **env)
    assert re.search(told, str(refused.value)), str(refused.value)


def test_a_file_that_was_named_must_be_there_and_be_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"other\.toml cannot be read: No such file"):
        load(tmp_path / "other.toml", {})
    (tmp_path / "other.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load(tmp_path / "other.toml", {})


@pytest.mark.parametrize(
    ("text", "env"),
    [
        (f"[nats]\ntoken = ['{CANARY}']", {}),
        (f"[nats]\ntoken = '{CANARY}'\ncreds_file = 'x'", {}),
        (f"[nats]\nurl = ['http://u:{CANARY}@h']", {}),
        (f"[postgres]\nurl = '{CANARY}'", {}),
        (f"[postgres]\nurl = 'postgresql://u:{CANARY}@[::1/db'", {}),
        (f"[postgres]\nurl = 'postgresql://u:{CANARY}@h/db?sslpassword={CANARY}'", {}),
        (f"[postgres]\ntls = '{CANARY}'", {}),
        ("", {"BATCH__MAX_ROWS": CANARY}),
        ("", {"NATS__TOKEN__X": CANARY, "NATS__TOKEN": CANARY}),
        (f"[providers]\nemail = '{CANARY}'", {}),
    ],
)
def test_no_error_shows_a_value_that_may_be_a_secret(given: Given, text: str, env: Mapping[str, str]) -> None:
    with pytest.raises(SettingsError) as refused:
        given(text, **env)
    assert CANARY not in f"{refused.value} {refused.value!r}"
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_no_printing_of_settings_shows_a_secret(given: Given) -> None:
    settings = given(
        f"[nats]\ntoken = '{CANARY}'\nurl = ['nats://{CANARY}@h']\n[providers.email]\npassword = '{CANARY}'",
        POSTGRES__URL=f"postgresql://u:{CANARY}@h/db",
        PROVIDERS__HOOK__SECRET=CANARY,
    )
    assert CANARY not in f"{settings} {settings!r} {settings.providers} {settings.providers['email']}"


class Mail(msgspec.Struct, frozen=True):
    """What a provider's own settings look like."""

    host: str
    port: int = 25
    password: Secret | None = None


def test_a_provider_s_section_is_checked_like_every_other(given: Given) -> None:
    settings = given(
        "[providers.email]\nhost = 'smtp.example'",
        PROVIDERS__EMAIL__PORT="587",
        PROVIDERS__EMAIL__PASSWORD=CANARY,
    )
    assert settings.provider("email", Mail) == Mail("smtp.example", 587, Secret(CANARY))


@pytest.mark.parametrize(
    ("text", "env", "told"),
    [
        ("", {}, r"providers\.email\.host is not set\. Set it to text"),
        ("[providers.email]\nhots = 'x'", {}, r"providers\.email\.hots \(.*\.toml\): no such key.*'host'"),
        ("[providers.email]\nhost = 3", {}, r"providers\.email\.host \(.*\.toml\): expected text"),
        (
            "[providers.email]\nhost = 'x'",
            {"PROVIDERS__email__PORT": "x"},
            r"providers\.email\.port \(PROJECTIONIST_PROVIDERS__email__PORT\): expected a whole number",
        ),
    ],
)
def test_a_wrong_key_of_a_provider_is_named(
    given: Given, text: str, env: Mapping[str, str], told: str
) -> None:
    with pytest.raises(SettingsError, match=told):
        given(text, **env).provider("email", Mail)


def test_a_section_for_a_name_that_nobody_has_is_refused(given: Given) -> None:
    settings = given("[consumers.OrderSumary]\n[providers.email]\n")
    with pytest.raises(SettingsError, match=r"consumers\.OrderSumary.*Did you mean 'OrderSummary'"):
        settings.refuse_strangers(consumers=["OrderSummary"], providers=["email"])
    with pytest.raises(SettingsError, match=r"\[providers\.email\].*Its providers: none"):
        settings.refuse_strangers(consumers=["OrderSumary"], providers=[])
    settings.refuse_strangers(consumers=["OrderSumary"], providers=["email"])


def test_answers_come_under_the_schema_unless_somebody_says_otherwise(given: Given) -> None:
    assert Settings().nats.inbox_prefix == "_INBOX_projectionist"
    assert given("[postgres]\nschema = 'shop of ann'").nats.inbox_prefix == "_INBOX_shop_of_ann"
    assert given("[nats]\ninbox_prefix = '_INBOX_x.y'").nats.inbox_prefix == "_INBOX_x.y"


@pytest.mark.parametrize("prefix", ["a b", "a.", ".a", "a..b", "a.*", ">", "$JS.x", "a.>"])
def test_what_cannot_begin_a_subject_is_no_inbox_prefix(given: Given, prefix: str) -> None:
    with pytest.raises(SettingsError, match="inbox_prefix"):
        given(f"[nats]\ninbox_prefix = '{prefix}'")


@pytest.mark.parametrize("pattern", ["a b", "a.", "", "a..b", "a.>.b", "a*"])
def test_a_source_may_not_speak_on_what_is_no_pattern(given: Given, pattern: str) -> None:
    with pytest.raises(SettingsError, match=r"consumer_defaults\.sources\.shop.*a subject, perhaps with"):
        given(f"[consumer_defaults.sources]\nshop = ['orders.*', '{pattern}']")


# The example file and the structs are one list of keys.


def keys_of(cls: type[msgspec.Struct], at: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with its default, sections that people name left out."""
    for field in msgspec.structs.fields(cls):
        if isinstance(field.default, msgspec.Struct):
            yield from keys_of(type(field.default), f"{at}{field.name}.")
        elif field.default_factory is not dict:
            yield f"{at}{field.name}", field.default


def keys_in(text: str) -> dict[str, bool]:
    """Every key of the example file, and whether it stands there as a default."""
    section, found = "", {}
    for line in text.splitlines():
        if header := re.fullmatch(r"(#?)\[(.+)\]", line):
            section = "" if header[1] else f"{header[2]}."
            if header[1]:
                section = "of the user's."
        elif key := re.match(r"(#?)(\w+) = ", line):
            found[f"{section}{key[2]}"] = not key[1]
    return {name: default for name, default in found.items() if not name.startswith("of the user's.")}


def test_the_example_file_is_the_list_of_defaults() -> None:
    assert load(EXAMPLE, {}) == Settings()


def test_the_example_file_and_the_code_hold_the_same_keys() -> None:
    code = {
        name: default not in (None, ()) or name.endswith("_fields") for name, default in keys_of(Settings)
    }
    assert keys_in(EXAMPLE.read_text()) == code


def test_the_example_file_is_right_where_it_is_only_an_example(tmp_path: Path) -> None:
    path = tmp_path / "projectionist.toml"
    one_way = re.sub(r"#(nkey_file|password_file|token|token_file) = .*", "", EXAMPLE.read_text())
    path.write_text(re.sub(r"^#(?=[\w\[])", "", one_way, flags=re.MULTILINE))
    settings = load(path, {})
    assert settings.policy("OrderSummary").hash == "canonical"
    assert "email" in settings.providers


def test_every_key_of_the_example_file_is_explained_where_its_name_does_not_do() -> None:
    lines = EXAMPLE.read_text().splitlines()
    blocks = "\n".join(lines).split("\n\n")
    assert [block for block in blocks if not block.startswith("#") and "# " not in block] == []


def test_who_acts_is_no_setting() -> None:
    assert load(None, {"PROJECTIONIST_ACTOR": "ann"}) == load(None, {})


def test_secrets_of_the_servers_come_from_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss/word?\n")
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "projectionist.toml").write_text(
        f'''[postgres]
url = "postgresql://shop@one.example:5432,two.example/shop?application_name=a"
password_file = "{tmp_path}/password"
[nats]
token_file = "{tmp_path}/token"
'''
    )
    found = load(tmp_path / "projectionist.toml", {})
    assert found.postgres.url is not None
    assert (
        found.postgres.url.reveal()
        == "postgresql://shop:p%40ss%2Fword%3F@one.example:5432,two.example/shop?application_name=a"
    )
    assert found.nats.token is not None
    assert found.nats.token.reveal() == "t0ken"
    assert "p%40ss" not in repr(found)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"POSTGRES__URL": "postgresql://a:b@h/d", "POSTGRES__PASSWORD_FILE": "/x"}, "keep one"),
        ({"POSTGRES__URL": "postgresql://a@h/d", "POSTGRES__PASSWORD_FILE": "/none"}, "/none cannot be read"),
        ({"NATS__TOKEN": "x", "NATS__TOKEN_FILE": "/x"}, "log in one way"),
        ({"NATS__TOKEN_FILE": "/none"}, "/none cannot be read"),
    ],
)
def test_a_secret_in_a_file_that_cannot_be_taken_is_refused(env: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(None, {f"PROJECTIONIST_{name}": value for name, value in env.items()})


@pytest.mark.parametrize(
    "page", ["https://traces.example/{trace}", "http://traces.example:16686/trace/{trace}?embed=1"]
)
def test_the_page_of_traces_is_an_address_with_a_place_for_the_trace(page: str) -> None:
    assert Telemetry(trace_page=page).trace_page == page


@pytest.mark.parametrize(
    "page",
    [
        "javascript:alert({trace})",
        "//x/{trace}",
        "https://x/",
        "https://{trace}.x/",
        "https:///{trace}",
        "https://[x/{trace}",
    ],
)
def test_the_page_of_traces_leads_nowhere_else(page: str) -> None:
    with pytest.raises(ValueError, match="trace_page"):
        Telemetry(trace_page=page)
