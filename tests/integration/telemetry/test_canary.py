"""Secrets in payloads, headers, keys and credentials reach no log line, span, metric or error text."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.otlp import sink
from tests.support.process import projectionist
from tests.support.scrape import free_port, get
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import environment
from tests.support.traced_app import APP

pytestmark = pytest.mark.asyncio

PAYLOAD, HEADER, KEY, TOKEN = "c4nary-payload", "c4nary-header", "c4nary-key", "c4nary-token"
TRACED = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "baggage": f"user={HEADER}",
}

PROVIDERS = """
[providers.email]
url = "http://127.0.0.1:1/mails"
private_hosts = ["127.0.0.1"]
bearer = { env = "MAIL_TOKEN" }
"""


async def secret_history(live: ConsumerHarness) -> None:
    """A payment, a poison that raises what it holds, a gap, a repeat, another content, and unreadable ones."""
    extra = TRACED | {"x-customer": HEADER, "ce-correlationid": HEADER}
    await live.publish(OrderPlaced(PAYLOAD, 1), KEY, 1, id="e1", headers=extra)
    await live.publish(OrderPaid(), KEY, 2, id="e2", headers=extra)
    await live.publish(OrderNoted(PAYLOAD), KEY, 3, id="e3", headers=extra)
    await live.publish(OrderNoted(PAYLOAD), f"{KEY}-gap", 3, id="e4", headers=extra)
    await live.publish(OrderPaid(), KEY, 2, id="e2", headers=extra)
    await live.publish(OrderNoted(f"{PAYLOAD} other"), KEY, 2, id="e2", headers=extra)
    await live.publish_raw(PAYLOAD.encode(), TRACED | {"ce-id": "e5", "x": HEADER}, f"{KEY}-raw")
    await live.publish(OrderPlaced(PAYLOAD, 1), f"{KEY}-two", 1, id="e6", headers=extra | {"ce-time": HEADER})


async def test_secrets_reach_no_log_span_metric_or_error_text(live: ConsumerHarness, tmp_path: Path) -> None:
    await live.migrate(shop(live.stream).Orders)
    await secret_history(live)
    port = free_port()
    (tmp_path / "projectionist.toml").write_text(PROVIDERS)
    with sink() as collected:
        env = {
            **environment(live, poison=PAYLOAD, telemetry__endpoint=collected.url, telemetry__logs="json"),
            "PROJECTIONIST_TELEMETRY__EXPORTER": "prometheus",
            "PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{port}",
            "PROJECTIONIST_TELEMETRY__METRICS_INTERVAL_S": "0.2",
            "MAIL_TOKEN": TOKEN,
        }
        said: list[str] = []
        tried = "select count(*) from {s}.outbox where attempt > 0"
        for command, done, at_work in (
            (
                "run",
                "select count(*) from {s}.counters where outcome = 'incident_identity_reuse'",
                "worker.running",
            ),
            ("relay", tried, "relay.running"),
            ("observe", tried, "telemetry.observed"),
        ):
            async with projectionist(command, APP, cwd=tmp_path, env=env) as child:
                await child.heard(at_work)
                await live.value_of(done, 1)
                said += [(await get(port, path)).text for path in ("/metrics", "/ready", "/live")]
                child.signal(signal.SIGTERM)
                ended = await child.ended()
                said += [ended.out, ended.err]
        said += [body.decode("utf-8", "replace") for body in collected.raw]
        assert collected.find("process", messaging__message__id="e3", error__type="ValueError")
    assert "e2" in "".join(said), "ids are told"
    assert_clean(said, [PAYLOAD, HEADER, KEY, TOKEN, live.database.split(":")[2].split("@")[0]])


def assert_clean(texts: Sequence[str], secrets: Sequence[str]) -> None:
    """None of the secrets is in any of the texts."""
    for text in texts:
        for secret in secrets:
            at = text.find(secret)
            assert at < 0, f"{secret} in …{text[max(0, at - 200) : at + 100]}…"
