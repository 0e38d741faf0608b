"""Whom we may call: the ranges, the spellings of a URL, and names that change their answer."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.outbox.providers.address_ranges import blocked
from projectionist.outbox.providers.egress import AddressError, Egress, EgressError, matches, parse


def egress(
    *answers: list[str],
    hosts: tuple[str, ...] | None = None,
    private: tuple[str, ...] = (),
    ranges: tuple[str, ...] = (),
) -> Egress:
    left = list(answers)

    async def resolve(_host: str, _port: int) -> list[str]:
        return left.pop(0)

    return Egress(hosts=hosts, private_hosts=private, resolve=resolve, blocked_networks=ranges)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",  # noqa: S104 - an address to be refused, not bound
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "192.88.99.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "2001:db8::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%1",
        "fec0::1",
        "ff02::1",
        "2606:4700::5efe:7f00:1",
        "2606:4700::200:5efe:a00:1",
        "localhost",
        "0x7f.1",
        "",
    ],
)
def test_an_address_that_is_not_out_there_is_blocked(address: str) -> None:
    assert blocked(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_a_public_address_is_not(address: str) -> None:
    assert blocked(address) is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "//example.com/",
        "https://./",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://exa mple.com/",
        "https://example.com\\@evil.com/",
        "https://exämple.com/",
        "https://example.com/\r\nHost: evil",
        "https://[::1",
        "https://%31%32%37.0.0.1/",
        "https://[fe80::1%25eth0]/",
        "https://example.com/{id}",
    ],
)
def test_a_url_that_two_parsers_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(EgressError) as caught:
        parse(url)
    assert "secret" not in str(caught.value)


def test_a_url_is_taken_apart_once() -> None:
    target = parse("https://API.example.com.:8443/v1/x?y=1#part")
    assert (target.host, target.port, target.path) == ("api.example.com", 8443, "/v1/x?y=1")
    assert target.authority == "api.example.com:8443"
    assert parse("http://[2606:4700::1111]/").authority == "[2606:4700::1111]"


@given(st.text(max_size=40))
def test_no_text_makes_the_url_parser_raise_anything_else(text: str) -> None:
    for url in (text, f"https://{text}", f"https://example.com{text}"):
        try:
            target = parse(url)
        except EgressError:
            continue
        assert target.host
        assert target.host.isascii()


def test_a_pattern_names_a_host_or_what_is_below_one() -> None:
    assert matches("API.stripe.com", ("api.stripe.com",))
    assert matches("a.b.example.com", ("*.example.com",))
    assert not matches("example.com", ("*.example.com",))
    assert not matches("evilexample.com", ("*.example.com", "example.co"))


def test_a_host_that_is_not_on_the_list_is_refused() -> None:
    rules = egress(hosts=("api.stripe.com",))
    rules.admit(parse("https://api.stripe.com/v1"))
    with pytest.raises(EgressError, match="not allowed"):
        rules.admit(parse("https://api.stripe.com.evil.example/v1"))


def test_without_tls_only_named_private_hosts_are_called() -> None:
    with pytest.raises(EgressError, match="without TLS"):
        egress().admit(parse("http://example.com/"))
    egress(private=("payments.internal",)).admit(parse("http://payments.internal/"))


def test_a_name_that_resolves_inside_is_refused_unless_it_is_named() -> None:
    with pytest.raises(AddressError, match="loopback"):
        asyncio.run(egress(["127.0.0.1"]).addresses("evil.example", 443))
    assert asyncio.run(egress(["10.0.0.7"], private=("pay.internal",)).addresses("pay.internal", 443))


def test_the_addresses_that_may_be_called_are_kept_and_the_others_left_out() -> None:
    found = asyncio.run(egress(["64:ff9b::808:808", "8.8.8.8", "127.0.0.1"]).addresses("dns64.example", 443))
    assert found == ["8.8.8.8"]


def test_an_address_written_as_the_host_is_checked_like_any_other() -> None:
    with pytest.raises(AddressError):
        asyncio.run(egress().addresses("169.254.169.254", 80))


def test_a_name_is_resolved_again_for_every_connection() -> None:
    rules = egress(["1.1.1.1"], ["127.0.0.1"])
    assert asyncio.run(rules.addresses("flips.example", 443)) == ["1.1.1.1"]
    with pytest.raises(AddressError):
        asyncio.run(rules.addresses("flips.example", 443))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "168.63.129.16",
        "100.100.100.200",
        "fd00:ec2::254",
        "fd00:ec2::254%eth0",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2606:4700::5efe:a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ],
)
def test_an_address_of_cloud_metadata_is_blocked_for_a_private_host_too(address: str) -> None:
    with pytest.raises(AddressError, match="metadata") as caught:
        asyncio.run(egress([address], private=("pay.internal",)).addresses("pay.internal", 80))
    assert not caught.value.remedy
    assert asyncio.run(egress([address, "10.0.0.7"], private=("a",)).addresses("a", 80)) == ["10.0.0.7"]


def test_a_network_that_the_deployment_blocks_is_blocked_for_every_host() -> None:
    for private in ((), ("pay.internal",)):
        rules = egress(["2606:4700:64::a00:1"], private=private, ranges=("2606:4700:64::/96", "9.0.0.0/8"))
        with pytest.raises(AddressError, match="blocked here"):
            asyncio.run(rules.addresses("pay.internal", 443))
    assert asyncio.run(egress(["9.9.9.9"], ranges=("2606:4700:64::/96",)).addresses("a", 443)) == ["9.9.9.9"]


def test_a_network_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/8' is not a range"):
        egress(ranges=("10.0.0.1/8",))
