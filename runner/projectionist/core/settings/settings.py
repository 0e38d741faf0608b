"""Every setting, its type and its default: `projectionist.toml`, and the environment over it.

`projectionist.example.toml` explains each key. Durations and sizes carry their unit in the name.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from projectionist.core import project_servers
from projectionist.core.errors import IdentifierError, SettingsError
from projectionist.core.identifiers import checked
from projectionist.core.retry_policy import RetryPolicy, Seconds
from projectionist.core.settings import secret_file
from projectionist.core.settings.listen_address import address
from projectionist.core.settings.secret import Secret, Url
from projectionist.core.settings.sources import Layers, Raw, build

log = logging.getLogger("projectionist.core")

FILE = "projectionist.toml"
DEFAULT_LISTEN = "127.0.0.1:9464"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable, which counts as `endpoint` of `[telemetry]` where that is not set."""

Count = Annotated[int, Meta(ge=1)]
Duration = Annotated[float, Meta(ge=0)]
Limit = Annotated[float, Meta(ge=0.1)]
App = Annotated[str, Meta(pattern=r"^[\w.]+:[\w.]+$", description="module:name, like shop.app:app")]
Name = Annotated[str, Meta(min_length=1)]
SubjectPatternText = Annotated[
    str,
    Meta(
        pattern=r"^(?:(?:\*|[^\s.*>]+)\.)*(?:\*|>|[^\s.*>]+)$", description="a subject, perhaps with * and >"
    ),
]
Kept = Annotated[float, Meta(ge=0)] | Literal["forever"]
S = TypeVar("S", bound=Struct)
INBOX = r"[^\s.*>$\x00-\x20\x7f][^\s.*>\x00-\x20\x7f]*(\.[^\s.*>\x00-\x20\x7f]+)*"


class Encrypted(Struct, frozen=True, kw_only=True):
    """The TLS keys of a server. `auto`: encrypted and checked, except on this machine, where it is off."""

    tls: Literal["auto", "verify-full", "require", "disable"] = "auto"
    ca_file: Name | None = None
    cert_file: Name | None = None
    key_file: Name | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file belong together, only one is set")
        if self.tls == "disable" and (self.ca_file or self.cert_file):
            raise ValueError("tls = 'disable' contradicts ca_file and cert_file")
        if self.tls == "require" and self.ca_file:
            raise ValueError(
                "tls = 'require' checks no certificate, which contradicts ca_file: use 'verify-full'"
            )


class Postgres(Encrypted, frozen=True, kw_only=True):
    """`[postgres]`: where rows and our own tables live."""

    url: Url | None = None
    direct_url: Url | None = None
    """The server itself, where `url` is a pooler that lends a session for a transaction."""
    password_file: Name | None = None
    schema: Name = "projectionist"
    lock_s: Limit = 8
    statement_s: Limit = 60
    correlation_index: bool = False
    trace_index: bool = False
    unseen_readers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            checked(self.schema, what="schema")
        except IdentifierError as error:
            raise ValueError(str(error)) from None
        if self.lock_s > self.statement_s:
            raise ValueError(f"lock_s ({self.lock_s:g}) is more than statement_s ({self.statement_s:g})")
        if self.schema.startswith("pg_"):
            raise ValueError("schema: PostgreSQL keeps names that begin with pg_ for itself")
        if self.direct_url is not None and self.url is None:
            raise ValueError("direct_url is set, and url is not: the server alone is named by url")
        for key, url in (("url", self.url), ("direct_url", self.direct_url)):
            if url is None:
                continue
            _refuse_url(key, url)
            if self.password_file is not None and url.has_login:
                raise ValueError(f"password_file and the password in {key} contradict each other: keep one")

    @property
    def direct(self) -> Postgres:
        """Return the settings by which a session of one's own is had: past the pooler, where there is one."""
        if self.direct_url is None:
            return self
        return msgspec.structs.replace(self, url=self.direct_url, direct_url=None)


def _refuse_url(key: str, url: Url) -> None:
    if url.scheme not in ("postgresql", "postgres"):
        raise ValueError(f"{key} begins with {url.scheme}://, expected postgresql://")
    if not url.hosts():
        raise ValueError(f"{key} names no host; a socket's folder is named by ?host=/folder")
    for parameter in url.parameters:
        if parameter == "service" or parameter.startswith("ssl"):
            raise ValueError(
                f"{key} holds {parameter}, which would bypass the keys here: use tls, ca_file, cert_file"
            )


class Nats(Encrypted, frozen=True, kw_only=True):
    """`[nats]`: the cluster that holds the streams."""

    url: tuple[Url, ...] = ()
    creds_file: Name | None = None
    nkey_file: Name | None = None
    token: Secret | None = None
    token_file: Name | None = None
    inbox_prefix: Name | None = None
    """Set by `Settings` where nobody has: after the schema, as durables are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inbox_prefix is not None and re.fullmatch(INBOX, self.inbox_prefix) is None:
            raise ValueError(
                f"inbox_prefix {self.inbox_prefix!r} is not the beginning of a subject, like _INBOX_shop"
            )
        ways = {
            "creds_file": self.creds_file,
            "nkey_file": self.nkey_file,
            "token": self.token,
            "token_file": self.token_file,
        }
        given = [key for key, value in ways.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} contradict each other: log in one way")
        for url in self.url:
            if url.scheme not in ("nats", "tls") or not url.hosts():
                raise ValueError(f"url {url} is not nats://host:port or tls://host:port")
            if url.scheme == "tls" and self.tls == "disable":
                raise ValueError("tls = 'disable' contradicts a url that begins with tls://")

    @property
    def takes_url_alone(self) -> bool:
        """Return whether a client that knows nothing but the URL can connect."""
        return self == Nats(url=self.url, inbox_prefix=self.inbox_prefix)


class BatchLimits(Struct, frozen=True, kw_only=True):
    """`[batch]`: when a batch ends, whichever comes first."""

    max_rows: Count = 1000
    max_bytes: Count = 16 * 1024 * 1024
    max_ms: Duration = 5


class Run(Struct, frozen=True, kw_only=True):
    """`[run]`: the processes."""

    shutdown_s: Duration = 10
    heartbeat_s: Limit = 5
    watchdog_timeout_s: Annotated[float, Meta(ge=1)] = 60
    lease_s: Annotated[float, Meta(ge=1)] = 30


class Headers(Struct, frozen=True, kw_only=True):
    """The NATS header that holds each part of the envelope."""

    id: Name = "ce-id"
    source: Name = "ce-source"
    type: Name = "ce-type"
    schema: Name = "ce-schemaversion"
    time: Name = "ce-time"
    aggregate_type: Name = "ce-aggregatetype"
    aggregate: Name = "ce-aggregateid"
    version: Name = "ce-aggregateversion"
    correlation: Name = "ce-correlationid"
    causation: Name = "ce-causationid"


class BreakerLimits(Struct, frozen=True, kw_only=True):
    """When a consumer stops fetching because too much fails at once, and for how long."""

    max_failing_keys: Count = 100
    failure_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.05
    window_s: Annotated[float, Meta(gt=0)] = 60
    open_s: Seconds = 30
    maximum_s: Seconds = 600

    def __post_init__(self) -> None:
        if self.maximum_s < self.open_s:
            raise ValueError(f"open_s ({self.open_s:g}) is more than maximum_s ({self.maximum_s:g})")


class FleetAlerts(Struct, frozen=True, kw_only=True):
    """What of a process or the outbox is too much: values for alerts to compare with, as `Alerts` of a consumer."""

    max_intent_age_s: Duration = 900
    max_loop_age_s: Duration = 120
    max_purge_failures: Annotated[int, Meta(ge=0)] = 2


def _leads_to_a_trace(page: str) -> bool:
    """Return whether an address leads to whichever trace is written in place of `{trace}`, at one host."""
    try:
        parts = urlsplit(page)
        host = parts.hostname
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(host)
        and page.isprintable()
        and "{trace}" in page
        and "{trace}" not in parts.netloc
    )


class Telemetry(Struct, frozen=True, kw_only=True):
    """`[telemetry]`: who is told how it goes."""

    exporter: Literal["none", "otlp", "prometheus"] = "none"
    endpoint: Annotated[Url, Meta(description="http://host:port (OTLP over HTTP: port 4318)")] | None = None
    metrics_interval_s: Limit = 15
    listen: Name | None = None
    hosts: tuple[Name, ...] = ()
    trace: Literal["continue", "link"] = "continue"
    sample: Annotated[float, Meta(ge=0, le=1)] = 0
    sources: tuple[Name, ...] = ()
    baggage: tuple[Name, ...] = ()
    logs: Literal["human", "json"] = "human"
    allow_unmonitored: bool = False
    audit_log: bool = False
    trace_page: str | None = None
    alerts: FleetAlerts = FleetAlerts()

    def __post_init__(self) -> None:
        if self.endpoint is not None and self.endpoint.scheme not in ("http", "https"):
            raise ValueError(f"endpoint {self.endpoint} is not http://host:port (OTLP over HTTP: port 4318)")
        if self.listen is not None:
            address(self.listen)
        if self.trace_page is not None and not _leads_to_a_trace(self.trace_page):
            raise ValueError(
                f"trace_page {self.trace_page!r} is no http(s)://host/… with {{trace}} in it, behind the host"
            )

    @property
    def metrics(self) -> str:
        """Return where metrics go; an endpoint alone gets them too."""
        return "otlp" if self.exporter == "none" and self.endpoint else self.exporter

    @property
    def listens(self) -> str | None:
        """Return where health and metrics are asked for; Prometheus needs such a place."""
        return self.listen or (DEFAULT_LISTEN if self.exporter == "prometheus" else None)

    @property
    def monitored(self) -> bool:
        """Return whether somebody would notice a backlog that grows, or has said that nobody needs to."""
        return self.metrics != "none" or self.allow_unmonitored


class Alerts(Struct, frozen=True, kw_only=True):
    """What of a consumer is too much. Nothing here changes what is done: the values are metrics, alerts compare."""

    min_runners: Count = 1
    max_lag: Count = 10_000
    max_pending_age_s: Duration = 300
    max_gap_age_s: Duration = 300
    max_parked_age_s: Duration = 86_400
    max_duplicate_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.2


class Retention(Struct, frozen=True, kw_only=True):
    """`[retention]`: what is removed beside the inbox, how often, and where it goes before."""

    purge_interval_s: Annotated[float, Meta(ge=1)] = 3600
    intent_retention_s: Kept = 2_592_000
    quarantine_payload_retention_s: Kept = 2_592_000
    decision_payload_retention_s: Kept = "forever"
    audit_retention_s: Kept = "forever"
    operation_retention_s: Kept = 7_776_000
    archive: Literal["none", "table", "files"] = "none"
    archive_folder: Name | None = None
    archive_retention_s: Kept = "forever"
    legal_hold: bool = False

    def __post_init__(self) -> None:
        if self.archive == "files" and self.archive_folder is None:
            raise ValueError("archive = 'files' needs archive_folder")


class Policy(Struct, frozen=True, kw_only=True):
    """`[consumer_defaults]`, and `[consumers.NAME]` over it key by key: what a deployment decides."""

    identity: Literal["fallback", "required"] = "fallback"
    identity_scope: Literal["", "type"] = ""
    identity_fields: tuple[Name, ...] = ()
    identity_types: dict[str, tuple[Name, ...]] = {}
    sources: dict[str, tuple[SubjectPatternText, ...]] = {}
    unknown: Literal["ignore", "fail"] = "ignore"
    hash: Literal["raw", "canonical"] = "raw"
    payload: Literal["never", "always"] = "never"
    aggregate_type: Name | None = None
    max_parked_payloads: Count = 10_000
    max_quarantined_payloads: Count = 10_000
    drain_batch_size: Count = 500
    gap_fetch_delay_ms: Duration = 500
    late_s: Duration = 60
    keep_generation_s: Duration = 86_400
    retention_s: Kept | None = None
    legal_hold: bool = False
    replay: Literal["forbidden", "no-effects", "allow"] | None = None
    ack: Literal["after-commit", "after-store"] = "after-commit"
    ack_wait_s: Annotated[float, Meta(ge=1)] = 30
    catch_up_s: Annotated[float, Meta(ge=1)] = 60
    max_event_bytes: Count = 1024 * 1024
    max_depth: Count = 64
    retry: RetryPolicy = RetryPolicy(initial_s=0.5, maximum_s=60)
    breaker: BreakerLimits = BreakerLimits()
    alerts: Alerts = Alerts()
    headers: Headers = Headers()


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of a process. Made by `load`."""

    app: App | None = None
    postgres: Postgres = Postgres()
    nats: Nats = Nats()
    batch: BatchLimits = BatchLimits()
    run: Run = Run()
    telemetry: Telemetry = Telemetry()
    retention: Retention = Retention()
    consumer_defaults: Policy = Policy()
    consumers: dict[str, Policy] = {}
    providers: dict[str, Raw] = {}

    def __post_init__(self) -> None:
        if self.nats.inbox_prefix is None:
            own = f"_INBOX_{re.sub(r'[^A-Za-z0-9_-]', '_', self.postgres.schema)}"
            msgspec.structs.force_setattr(self, "nats", msgspec.structs.replace(self.nats, inbox_prefix=own))
        for name, policy in {"consumer_defaults": self.consumer_defaults, **self.consumers}.items():
            if policy.max_event_bytes > self.batch.max_bytes:
                raise ValueError(
                    f"max_event_bytes of {name} ({policy.max_event_bytes}) "
                    f"is more than batch.max_bytes ({self.batch.max_bytes})"
                )

    def policy(self, name: str) -> Policy:
        """Return the policy of the consumer `name`."""
        return self.consumers.get(name, self.consumer_defaults)

    def provider(self, name: str, cls: type[S]) -> S:
        """Return `[providers.NAME]` as `cls`, with the same checks and errors as every other section."""
        raw = self.providers.get(name)
        layers = raw.layers if raw is not None else Layers(Settings, None, {})
        return build(cls, raw or {}, ("providers", name), layers)

    def refuse_strangers(self, *, consumers: Collection[str], providers: Collection[str]) -> None:
        """Raise SettingsError if a section of `[consumers.…]` or `[providers.…]` is for a name not among these."""
        for section, given, known in (
            ("consumers", self.consumers, consumers),
            ("providers", self.providers, providers),
        ):
            for name in given:
                if name not in known:
                    raise _stranger(section, name, known)


def _stranger(section: str, name: str, known: Collection[str]) -> SettingsError:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return SettingsError(
        f"[{section}.{name}] is set, and this app has no {section.removesuffix('s')} {name!r}",
        remedy=f"{hint}Its {section}: {', '.join(sorted(known)) or 'none'}. Two apps have a folder and a file each",
    )


def settings(log_line: Callable[[str], object] = log.info) -> Settings:
    """Return the settings that every process of a project reads: the nearest `projectionist.toml`, here or in a folder
    above, and the environment.

    A missing URL is that of the servers of `projectionist dev up`, where they run, and `told` is told so. If none runs
    it stays missing: whoever connects says how to get one.
    """
    place = project_servers.find(Path.cwd(), FILE)
    file = place.parent / FILE
    found = load(file if file.is_file() else None)
    if found.postgres.url is not None and found.nats.url:
        return found
    running, used = {name: Url(url) for name, url in project_servers.running(place).items()}, []
    if found.postgres.url is None and (url := running.get("postgres")):
        found = msgspec.structs.replace(found, postgres=msgspec.structs.replace(found.postgres, url=url))
        used.append(url)
    if not found.nats.url and (url := running.get("nats")):
        found = msgspec.structs.replace(found, nats=msgspec.structs.replace(found.nats, url=(url,)))
        used.append(url)
    if used:
        log_line(f"using {' and '.join(map(str, used))} of `projectionist dev`")
    return found


def load(path: str | Path | None, env: Mapping[str, str] = os.environ) -> Settings:
    """Return settings from the file `path`, if any, and `env`, which goes first; nothing else is looked for.

    `PROJECTIONIST_POSTGRES__URL` is `url` of `[postgres]`: prefix, then the path joined by two underscores.
    Raises SettingsError, which names the key, where it stands and what is allowed there.
    """
    layers = Layers(Settings, None if path is None else Path(path), env)
    layers.fall_back("telemetry", "endpoint", ENDPOINT, env)
    defaults, consumers = (layers.tree.get(key) for key in ("consumer_defaults", "consumers"))
    if isinstance(defaults, dict) and isinstance(consumers, dict):
        layers.tree["consumers"] = {name: _over(defaults, own) for name, own in consumers.items()}
    return _with_secrets(build(Settings, layers.tree, (), layers))


def _with_secrets(found: Settings) -> Settings:
    """Put what stands in files of its own where it is used."""
    postgres, nats, replace = found.postgres, found.nats, msgspec.structs.replace
    if postgres.url is not None and postgres.password_file is not None:
        password = secret_file.read(postgres.password_file)
        url, direct = postgres.url.with_password(password), postgres.direct_url
        direct = None if direct is None else direct.with_password(password)
        postgres = replace(postgres, url=url, direct_url=direct, password_file=None)
    if nats.token_file is not None:
        nats = replace(nats, token=secret_file.read(nats.token_file), token_file=None)
    return replace(found, postgres=postgres, nats=nats)


def _over(lower: Any, upper: Any) -> Any:
    """Return `upper` over `lower`, key by key and section by section."""
    if not (isinstance(lower, dict) and isinstance(upper, dict)):
        return upper
    return lower | {key: _over(lower.get(key), value) for key, value in upper.items()}
