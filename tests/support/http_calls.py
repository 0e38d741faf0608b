"""A provider over HTTP and its calls, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import Http, ProviderContext, Reply, Request
from projectionist.outbox.providers.http import HttpSettings
from projectionist.outbox.providers.runtime import attempt, prepare

BODY = b'{"amount":100,"lines":[{"price":"p_1","qty":2}],"order_id":"o-1","paid":true}'


def settings_of(url: str, **more: Any) -> HttpSettings:
    section = {"url": url, "private_hosts": ["127.0.0.1", "pay.test"]} | more
    return build(HttpSettings, section, ("providers", "pay"), Layers(Settings, None, {}))


@asynccontextmanager
async def http(url: str, site: ProviderContext | None = None, **more: Any) -> AsyncIterator[Http]:
    provider = Http("pay", settings_of(url, **more), site or ProviderContext())
    await provider.open()
    try:
        yield provider
    finally:
        await provider.close()


def a_request(key: str = "k1", body: bytes = BODY, **more: Any) -> Request:
    return Request(key=key, provider="pay", destination="pay", intent="Charge", body=body, **more)


def rendered(provider: Http, **more: Any) -> Request:
    request = a_request(**more)
    wire = prepare(provider, request)
    assert isinstance(wire, bytes), wire
    return msgspec.structs.replace(request, wire=wire)


async def sent(provider: Http, **more: Any) -> Reply:
    return await attempt(provider, rendered(provider, **more))


def resolver(answers: Mapping[str, list[str]]) -> ProviderContext:
    left = {host: list(found) for host, found in answers.items()}

    async def resolve(host: str, _port: int) -> list[str]:
        found = left[host]
        return [found.pop(0) if len(found) > 1 else found[0]]

    return ProviderContext(resolve=resolve)
