"""From bytes to a Delivery, or to Unreadable and why."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.letters import UNPRINTABLE

from projectionist.core import clock
from projectionist.core.cloudevents import DEFAULTS
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.printable_text import TEXT_BYTES, is_printable
from projectionist.core.settings.settings import Headers, Policy
from projectionist.projections import Event
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery, Reason, Unreadable

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
REPLY = b"$JS.ACK.SHOP.orders.2.42.43.1722600000000000000.5"
USUAL = {
    "ce-id": "e-1",
    "ce-source": "/shop",
    "ce-type": "order.placed",
    "ce-aggregateid": "7",
    "ce-aggregateversion": "3",
}
BODY = b'{"order_id":"7","total":1250}'


class Placed(Event, type="order.placed"):
    order_id: str
    total: int = 0


MIB = 2**20
HASHES = 8
"""So many times as long as one hash of it a hostile body may hold the loop; it takes 12 to 350 where it does all."""
HOSTILE = [
    b'{"a":"' + b"\\u00e9" * (MIB // 6) + b'"}',
    b'{"a":"' + b"\\ud83d\\ude00" * (MIB // 12) + b'"}',
    b'{"a":"' + b"[" * MIB + b'"}',
    b'{"a":[' + b"[]," * (MIB // 3) + b"[]]}",
    b'{"a":[' + b'"[",' * (MIB // 4) + b"1]}",
    b'{"a":[' + b",".join([b"[" * 20 + b"]" * 20] * (MIB // 41)) + b"]}",
    b'{"a":' + b"9" * MIB + b"}",
    b"[" * MIB,
]
"""Bodies whose sender means ill: each is the whole of what a server takes by default."""


def decode(kind: str, schema: int, data: bytes) -> Event:
    if schema > 1:
        raise ValueError(f"no way from schema {schema}")
    return msgspec.json.decode(data, type=Placed)


def reader(*, ordered: bool = True, subjects: str = "shop.order.{aggregate}", **policy: Any) -> Decoder:
    return Decoder(
        Policy(**policy),
        stream="SHOP",
        ordered=ordered,
        match=Subjects([subjects]).match,
        known={"order.placed"},
        decode=decode,
    )


def head(headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()


def arrival(
    headers: Mapping[str, str] | bytes | None = USUAL,
    data: bytes = BODY,
    *,
    subject: str = "shop.order.7",
    reply: bytes = REPLY,
) -> Arrival:
    raw = headers if headers is None or isinstance(headers, bytes) else head(headers)
    return Arrival(subject, reply, raw, data, clock.now())


def read(one: Arrival, by: Decoder | None = None) -> Delivery:
    found = (by or reader()).read(one)
    assert isinstance(found, Delivery), found
    return found


def refused(one: Arrival, by: Decoder | None = None) -> Unreadable:
    found = (by or reader()).read(one)
    assert isinstance(found, Unreadable), found
    return found


def without(*names: str, **more: str) -> dict[str, str]:
    return {name: value for name, value in USUAL.items() if name not in names} | more


class TestTheUsualEvent:
    def test_it_is_read_whole(self) -> None:
        now = time.time()
        found = read(
            arrival(
                USUAL | {"ce-time": "2026-01-31T23:59:59Z", "ce-correlationid": "c", "ce-causationid": "d"}
            )
        )
        assert (found.source, found.id, found.type, found.schema) == ("/shop", "e-1", "order.placed", 1)
        assert (found.aggregate, found.version) == ("/7", 3)
        assert (found.stream, found.seq, found.delivered) == ("SHOP", 42, 2)
        assert found.published_ns == 1722600000000000000
        assert (found.subject, found.data, found.used_fallback) == ("shop.order.7", BODY, False)
        assert found.event == Placed(order_id="7", total=1250)
        assert found.problem is None
        assert abs(found.received_us / 1e6 - now) < 5
        envelope = found.envelope()
        assert envelope.time == datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
        assert (envelope.correlation, envelope.causation) == ("c", "d")
        assert (envelope.aggregate_type, envelope.aggregate_id, envelope.sequence) == ("", "7", 42)

    def test_the_longer_reply_of_newer_brokers_is_understood(self) -> None:
        reply = b"$JS.ACK._.hash.SHOP.orders.2.42.43.1722600000000000000.5.token"
        found = read(arrival(reply=reply))
        assert (found.seq, found.delivered, found.published_ns) == (42, 2, 1722600000000000000)

    def test_header_names_are_read_in_any_case_and_order(self) -> None:
        headers = {name.upper(): value for name, value in reversed(USUAL.items())} | {"X-Other": "1"}
        assert msgspec.structs.replace(
            read(arrival(headers)), received_us=0, arrival=None
        ) == msgspec.structs.replace(read(arrival()), received_us=0, arrival=None)

    @pytest.mark.parametrize(
        "raw", ["ce-id:e-1", "ce-id:\te-1 ", "ce-id :  e-1", "no header at all\r\nce-id: e-1"]
    )
    def test_unusual_spacing_is_read(self, raw: str) -> None:
        assert (
            read(arrival(head(without("ce-id")).replace(b"\r\n\r\n", f"\r\n{raw}\r\n\r\n".encode()))).id
            == "e-1"
        )

    def test_values_are_percent_decoded_once(self) -> None:
        found = read(arrival(USUAL | {"ce-id": "caf%C3%A9%2525"}))
        assert found.id == "café%25"

    def test_only_headers_of_cloudevents_are_percent_decoded(self) -> None:
        by = reader(headers=Headers(id="X-Event-Id"))
        assert read(arrival(without("ce-id") | {"X-Event-Id": "100%25"}), by).id == "100%25"

    def test_a_deployment_maps_its_own_headers(self) -> None:
        by = reader(headers=Headers(id="X-Id", type="X-Type", version="X-Rev", aggregate="X-Order"))
        mapped = {"X-Id": "1", "X-Type": "order.placed", "X-Rev": "3", "X-Order": "7"}
        found = read(arrival(mapped), by)
        assert (found.source, found.id, found.version, found.aggregate) == ("SHOP", "1", 3, "/7")

    def test_an_unrelated_header_that_is_not_utf8_does_no_harm(self) -> None:
        raw = head(USUAL).replace(b"\r\n\r\n", b"\r\nX-Name: Andr\xe9\r\n\r\n")
        assert read(arrival(raw)).id == "e-1"


class TestIdentity:
    def test_fields_of_the_body_go_before_everything(self) -> None:
        by = reader(identity_fields=("order_id", "total"))
        found = read(arrival(), by)
        assert (found.source, found.id, found.used_fallback) == ("SHOP", '["7",1250]', False)

    def test_an_event_under_a_new_transport_id_collapses_or_counts_twice_as_declared(self) -> None:
        again = arrival(USUAL | {"ce-id": "e-2"})
        by_field, by_id = reader(identity_fields=("order_id",)), reader()
        assert read(arrival(), by_field).id == read(again, by_field).id
        assert read(arrival(), by_id).id != read(again, by_id).id

    @pytest.mark.parametrize(
        "body", [b"{}", b'{"order_id":null}', b'{"order_id":1.5}', b'{"order_id":[]}', b"x", b'"\xff"']
    )
    def test_an_event_without_them_is_refused(self, body: bytes) -> None:
        assert refused(arrival(data=body), reader(identity_fields=("order_id",))).reason is Reason.IDENTITY

    def test_an_id_without_a_source_has_the_stream_as_source(self) -> None:
        found = read(arrival(without("ce-source")))
        assert (found.source, found.id) == ("SHOP", "e-1")

    def test_the_message_id_is_next(self) -> None:
        found = read(arrival(without("ce-id") | {"Nats-Msg-Id": "m-1"}))
        assert (found.source, found.id, found.used_fallback) == ("SHOP", "m-1", False)

    def test_without_any_it_is_the_aggregates_version(self) -> None:
        found = read(arrival(without("ce-id")))
        assert (found.source, found.id, found.used_fallback) == ("SHOP", "/7:3", True)

    def test_without_order_it_is_incarnation_and_sequence(self) -> None:
        by = reader(ordered=False)
        by.incarnation = 4
        found = read(arrival(without("ce-id")), by)
        assert (found.source, found.id, found.used_fallback) == ("SHOP", "4:42", True)

    def test_it_may_be_required(self) -> None:
        by = reader(identity="required")
        assert refused(arrival(without("ce-id")), by).reason is Reason.IDENTITY
        assert read(arrival(without("ce-id") | {"Nats-Msg-Id": "m-1"}), by).id == "m-1"

    def test_a_bare_business_id_may_be_told_apart_by_type(self) -> None:
        by = reader(identity_scope="type")
        assert read(arrival(), by).id == '["order.placed","e-1"]'
        assert read(arrival(USUAL | {"ce-type": "order.paid"}), by).id == '["order.paid","e-1"]'

    @pytest.mark.parametrize("bad", ["", "a%00b", "a%0Ab", "%FF", "a%E2%80%AEb", "x" * 256, "%C3%A9" * 128])
    def test_an_id_that_is_not_1_to_255_bytes_of_printable_text_is_refused(self, bad: str) -> None:
        assert refused(arrival(USUAL | {"ce-id": bad})).reason in (Reason.IDENTITY, Reason.HEADERS)

    def test_the_longest_id_is_read(self) -> None:
        assert len(read(arrival(USUAL | {"ce-id": "x" * 255})).id) == 255

    def test_events_of_one_type_may_be_known_by_fields_of_their_own(self) -> None:
        by = reader(identity_types={"order.placed": ("order_id",)})
        assert (
            read(arrival(), by).id == read(arrival(USUAL | {"ce-id": "e-2"}), by).id == '["order.placed","7"]'
        )
        assert read(arrival(USUAL | {"ce-type": "order.paid"}), by).id == "e-1"

    @pytest.mark.parametrize(
        ("lacks", "policy", "says"),
        [
            (
                "ce-type",
                {},
                "no header ce-type, which holds the event's type: type of [consumer_defaults.headers]",
            ),
            (
                "ce-aggregateversion",
                {},
                "no header ce-aggregateversion, which holds the aggregate's version",
            ),
            ("ce-id", {"identity": "required"}, "no header ce-id, which holds the event's id: id of"),
        ],
    )
    def test_what_is_missing_is_named_with_the_setting_that_maps_it(
        self, lacks: str, policy: dict[str, Any], says: str
    ) -> None:
        assert says in refused(arrival(without(lacks)), reader(**policy)).detail
        mapped = reader(**policy, headers=Headers(type="X-Type", version="X-Rev", id="X-Id"))
        assert "no header x-type" in refused(arrival(), mapped).detail


class TestAggregates:
    def test_the_subject_names_it_where_no_header_does(self) -> None:
        assert read(arrival(without("ce-aggregateid"))).aggregate == "/7"

    def test_its_type_comes_from_header_subject_or_settings(self) -> None:
        in_subject = reader(subjects="shop.{type}.{aggregate}")
        assert read(arrival(USUAL | {"ce-aggregatetype": "order"})).aggregate == "order/7"
        assert read(arrival(), in_subject).aggregate == "order/7"
        assert read(arrival(), reader(aggregate_type="Order")).aggregate == "Order/7"

    def test_a_coded_token_is_decoded(self) -> None:
        found = read(arrival(without("ce-aggregateid"), subject="shop.order.a%2Eb"))
        assert found.aggregate == "/a.b"

    @pytest.mark.parametrize(
        ("headers", "subject"),
        [
            (USUAL | {"ce-aggregateid": "8"}, "shop.order.7"),
            (USUAL | {"ce-aggregateid": ""}, "shop.order.7"),
            (USUAL | {"ce-aggregatetype": "a/b"}, "shop.order.7"),
        ],
    )
    def test_one_that_contradicts_itself_or_cannot_be_is_refused(
        self, headers: dict[str, str], subject: str
    ) -> None:
        assert refused(arrival(headers, subject=subject)).reason is Reason.AGGREGATE

    def test_one_that_is_too_long_is_refused(self) -> None:
        anywhere = reader(subjects="shop.>")
        assert refused(arrival(USUAL | {"ce-aggregateid": "x" * 600}), anywhere).reason is Reason.AGGREGATE

    @pytest.mark.parametrize("headers", [USUAL, {}, {"ce-id": "\0"}])
    def test_what_comes_under_a_subject_of_others_is_nothing_whatever_it_is(
        self, headers: dict[str, str]
    ) -> None:
        one = arrival(headers, subject="shop.payment.7")
        assert reader().read(one) is None
        assert reader().settled(one) is None
        assert isinstance(reader().reread(one, 7), Unreadable)

    @pytest.mark.parametrize("subject", ["shop.order.%FF", "shop.order.7\ufffd\0"])
    def test_a_subject_that_holds_no_aggregate_is_refused(self, subject: str) -> None:
        found = refused(arrival(without("ce-aggregateid"), subject=subject))
        assert found.reason in (Reason.SUBJECT, Reason.AGGREGATE)
        assert "\0" not in found.subject

    def test_order_needs_aggregate_and_version(self) -> None:
        anonymous = reader(subjects="shop.order.*")
        assert refused(arrival(without("ce-aggregateid")), anonymous).reason is Reason.AGGREGATE
        assert refused(arrival(without("ce-aggregateversion"))).reason is Reason.VERSION

    def test_without_order_neither_is_needed(self) -> None:
        found = read(arrival({"ce-id": "1", "ce-type": "t"}), reader(ordered=False, subjects="shop.order.*"))
        assert (found.aggregate, found.version) == (None, None)

    @pytest.mark.parametrize(
        "version", ["", "0", "-1", "+1", "1.0", "1e3", "x", "٣", "9223372036854775808", "9" * 50]
    )
    def test_a_version_is_a_whole_number_from_1(self, version: str) -> None:
        assert refused(arrival(USUAL | {"ce-aggregateversion": version})).reason in (
            Reason.VERSION,
            Reason.HEADERS,
        )

    def test_a_version_may_be_padded_with_zeros(self) -> None:
        assert read(arrival(USUAL | {"ce-aggregateversion": "0000000003"})).version == 3


class TestOtherHeaders:
    @pytest.mark.parametrize(
        ("headers", "reason"),
        [
            (without("ce-type"), Reason.TYPE),
            (USUAL | {"ce-type": "x" * 600}, Reason.TYPE),
            (USUAL | {"ce-schemaversion": "two"}, Reason.SCHEMA),
            (USUAL | {"ce-time": "yesterday"}, Reason.TIME),
            (USUAL | {"ce-time": "2026-01-31T10:00:00"}, Reason.TIME),
            (USUAL | {"ce-correlationid": "%00"}, Reason.HEADERS),
            (USUAL | {"ce-source": "%C3"}, Reason.HEADERS),
            (head(USUAL).replace(b"\r\n\r\n", b"\r\nCE-ID: e-2\r\n\r\n"), Reason.HEADERS),
            (head(USUAL).replace(b"e-1", b"e-\xff"), Reason.HEADERS),
            (None, Reason.TYPE),
            (b"", Reason.TYPE),
        ],
    )
    def test_what_cannot_be_read_is_refused(
        self, headers: dict[str, str] | bytes | None, reason: Reason
    ) -> None:
        found = refused(arrival(headers))
        assert found.reason is reason
        assert (found.seq, found.delivered, found.data, found.size) == (42, 2, BODY, len(BODY))
        assert found.headers == arrival(headers).head

    def test_of_an_unreadable_one_what_is_known_of_its_identity_is_kept(self) -> None:
        found = refused(arrival(without("ce-type")))
        assert (found.source, found.id) == ("/shop", "e-1")

    def test_a_reply_that_is_not_jetstreams_is_refused(self) -> None:
        assert refused(arrival(reply=b"_INBOX.1")).reason is Reason.REPLY

    @pytest.mark.parametrize("name", ["traceparent", "Traceparent", "ce-traceparent"])
    def test_a_trace_is_taken_from_either_header(self, name: str) -> None:
        assert read(arrival(USUAL | {name: TRACE})).traceparent == TRACE

    def test_the_transports_trace_goes_before_the_creations(self) -> None:
        other = TRACE.replace("4bf9", "5bf9")
        found = read(arrival(USUAL | {"ce-traceparent": other, "traceparent": TRACE, "tracestate": "a=b"}))
        assert (found.traceparent, found.tracestate) == (TRACE, "a=b")

    @pytest.mark.parametrize("bad", ["", "00-x", TRACE + "x"])
    def test_a_malformed_trace_is_none_and_no_reason_to_refuse(self, bad: str) -> None:
        found = read(arrival(USUAL | {"traceparent": bad, "tracestate": "a=b"}))
        assert (found.traceparent, found.tracestate) == (None, None)


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"x",
            b"[]",
            b'{"order_id":7}',
            b'{"total":1e400}',
            b'{"order_id":"\\u0000"}',
            b'"\xff"',
            b"[" * 10_000,
        ],
    )
    def test_a_bad_body_of_a_declared_type_is_a_problem_of_its_aggregate(self, body: bytes) -> None:
        found = read(arrival(data=body))
        assert found.problem
        assert (found.event, found.aggregate, found.version, found.data) == (None, "/7", 3, body)

    def test_a_type_that_nobody_declares_is_not_decoded(self) -> None:
        found = read(arrival(USUAL | {"ce-type": "order.shipped"}, b"\x00 not json"))
        assert (found.event, found.problem, found.aggregate, found.version) == (None, None, "/7", 3)

    def test_it_may_be_a_problem_by_policy(self) -> None:
        found = read(arrival(USUAL | {"ce-type": "order.shipped"}), reader(unknown="fail"))
        assert found.problem == "no handler declares its type"

    def test_one_above_the_limit_is_a_problem_whatever_its_type(self) -> None:
        by = reader(max_event_bytes=10)
        for kind in ("order.placed", "order.shipped"):
            found = read(arrival(USUAL | {"ce-type": kind}), by)
            assert "10 of max_event_bytes" in (found.problem or "")

    def test_of_one_that_is_unreadable_and_above_the_limit_the_beginning_is_kept(self) -> None:
        found = refused(arrival(without("ce-type"), b"x" * 5000), reader(max_event_bytes=4000))
        assert (len(found.data), found.size) == (1024, 5000)

    def test_of_one_that_is_unreadable_its_place_is_known_as_far_as_it_says(self) -> None:
        found = refused(arrival(USUAL | {"ce-time": "yesterday"}))
        assert (found.source, found.id, found.aggregate, found.version) == ("/shop", "e-1", "/7", 3)
        twice = head(USUAL).replace(b"\r\n\r\n", b"\r\nce-id: e-2\r\n\r\n")
        found = refused(arrival(twice))
        assert (found.source, found.id, found.aggregate, found.version) == (None, None, "/7", None)
        found = refused(
            arrival(USUAL | {"ce-id": "x" * 300, "ce-aggregateid": "8", "ce-aggregateversion": "x"})
        )
        assert (found.source, found.id, found.aggregate, found.version) == ("/shop", None, None, None)

    def test_what_an_upcaster_raises_is_a_problem(self) -> None:
        found = read(arrival(USUAL | {"ce-schemaversion": "2"}))
        assert found.problem == "ValueError: no way from schema 2"


class TestTheHash:
    @pytest.mark.parametrize(
        "other",
        [
            arrival(data=BODY + b" "),
            arrival(USUAL | {"ce-type": "order.paid"}),
            arrival(USUAL | {"ce-schemaversion": "2"}),
            arrival(USUAL | {"ce-aggregateversion": "4"}),
            arrival(USUAL | {"ce-aggregatetype": "order"}),
        ],
    )
    def test_it_covers_what_one_identity_must_not_change(self, other: Arrival) -> None:
        assert read(arrival()).hash != read(other).hash

    def test_it_does_not_cover_how_it_travelled(self) -> None:
        again = arrival(USUAL | {"traceparent": TRACE, "ce-time": "2026-01-31T23:59:59Z", "ce-id": "e-2"})
        assert read(arrival()).hash == read(again).hash
        assert len(read(arrival()).hash) == 16

    def test_moving_a_character_between_its_parts_changes_it(self) -> None:
        by = reader(ordered=False, subjects="shop.order.*")
        one = arrival({"ce-id": "1", "ce-type": "a1"})
        other = arrival({"ce-id": "1", "ce-type": "a", "ce-schemaversion": "11"})
        assert read(one, by).hash != read(other, by).hash

    def test_a_producer_that_serialises_anew_may_be_read_canonically(self) -> None:
        by = reader(hash="canonical")
        anew = arrival(data=b'{ "total": 1250, "order_id": "\\u0037" }')
        assert read(arrival(), by).hash == read(anew, by).hash
        assert read(arrival()).hash != read(anew).hash
        assert read(arrival(data=b"not json"), by).problem

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (b'{"total":1,"total":2}', b'{"total":2}'),
            (b'{"total":1,"\\u0074otal":2}', b'{"total":2}'),
            (b'{"order_id":{"a":":","a":":"}}', b'{"order_id":{"a":":"}}'),
            (b'{"order_id":"\\u003a","order_id":"\\u003a"}', b'{"order_id":":"}'),
            (b'{"total":18446744073709551616}', b'{"total":18446744073709551617}'),
            (b'{"total":9007199254740993.0}', b'{"total":9007199254740992.0}'),
            (b'{"total":0.1}', b'{"total":0.1000000000000000055511151231257827}'),
            (b'{"total":1e400}', b'{"total":1e401}'),
        ],
    )
    def test_read_canonically_too_two_bodies_that_say_different_things_differ(
        self, one: bytes, other: bytes
    ) -> None:
        by = reader(hash="canonical")
        assert read(arrival(data=one), by).hash != read(arrival(data=other), by).hash
        assert read(arrival(data=one), by).hash == read(arrival(data=one), by).hash

    @pytest.mark.parametrize("same", [b"1250.0", b"1250.00", b"1.25e3", b"12.5E+2", b"125e1"])
    def test_read_canonically_a_number_is_its_value(self, same: bytes) -> None:
        by = reader(hash="canonical")
        one, other = (b'{"order_id":"7","total":%b}' % number for number in (same, b"1250.0"))
        assert read(arrival(data=one), by).hash == read(arrival(data=other), by).hash

    @pytest.mark.parametrize("hashed", ["raw", "canonical"])
    @pytest.mark.parametrize("body", HOSTILE, ids=lambda body: body[:12].decode())
    def test_a_hostile_megabyte_costs_the_loop_a_few_hashes_of_it(self, body: bytes, hashed: str) -> None:
        by = reader(hash=hashed, max_event_bytes=2**21)
        alone = read(arrival(data=body), reader(hash=hashed, max_event_bytes=2**21))

        async def spent() -> float:
            data = bytes(bytearray(body))
            begun = time.thread_time()
            await by.examine(data)
            found = read(arrival(data=data), by)
            assert (found.problem, found.hash) == (alone.problem, alone.hash)
            return time.thread_time() - begun

        def hashed_once() -> float:
            data, begun = bytes(bytearray(body)), time.thread_time()
            blake2b(data, digest_size=16).digest()
            return time.thread_time() - begun

        # Beside each other, since who shares a core and its caches is slower at both; one try tells.
        assert any(asyncio.run(spent()) < HASHES * hashed_once() for _ in range(50))

    def test_read_canonically_an_escaped_colon_is_a_colon(self) -> None:
        by, escaped = reader(hash="canonical"), b'{"order_id":"\\u003a","total":0}'
        assert (
            read(arrival(data=escaped), by).hash == read(arrival(data=b'{"total":0,"order_id":":"}'), by).hash
        )


class TestStructuredMode:
    EVENT = {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/shop",
        "type": "order.placed",
        "aggregateid": "7",
        "aggregateversion": 3,
        "data": {"order_id": "7", "total": 1250},
    }

    def arrival(self, event: object, kind: str = "application/cloudevents+json; charset=utf-8") -> Arrival:
        return arrival({"Content-Type": kind}, json.dumps(event).encode())

    def test_it_is_read_like_the_other(self) -> None:
        found = read(self.arrival(self.EVENT))
        assert (found.source, found.id, found.aggregate, found.version) == ("/shop", "e-1", "/7", 3)
        assert found.event == Placed(order_id="7", total=1250)

    def test_data_may_be_base64(self) -> None:
        event = {name: value for name, value in self.EVENT.items() if name != "data"}
        found = read(self.arrival(event | {"data_base64": b64encode(BODY).decode()}))
        assert found.data == BODY
        assert found.event == Placed(order_id="7", total=1250)

    @pytest.mark.parametrize(
        "event",
        [[], {}, {**EVENT, "id": {}}, {**EVENT, "data_base64": "?"}, {**EVENT, "type": None}],
    )
    def test_what_is_no_event_is_refused(self, event: object) -> None:
        assert refused(self.arrival(event)).reason in (Reason.HEADERS, Reason.TYPE)

    @pytest.mark.parametrize("kind", ["application/cloudevents-batch+json", "application/cloudevents+avro"])
    def test_other_formats_are_refused(self, kind: str) -> None:
        assert refused(self.arrival(self.EVENT, kind)).reason is Reason.HEADERS

    @pytest.mark.parametrize("body", [b"\xff", b"[" * 10_000, b"{", b"x" * 200])
    def test_a_bad_body_is_refused(self, body: bytes) -> None:
        found = refused(
            arrival({"Content-Type": "application/cloudevents+json"}, body), reader(max_event_bytes=150)
        )
        assert found.reason in (Reason.BODY, Reason.HEADERS)


FIELDS = {
    "id": Reason.IDENTITY,
    "source": Reason.IDENTITY,
    "type": Reason.TYPE,
    "schema": Reason.SCHEMA,
    "aggregate_type": Reason.AGGREGATE,
    "aggregate": Reason.AGGREGATE,
    "version": Reason.VERSION,
    "time": Reason.TIME,
    "correlation": Reason.HEADERS,
    "causation": Reason.HEADERS,
}
FULL = USUAL | {
    "ce-aggregatetype": "order",
    "ce-schemaversion": "1",
    "ce-time": "2026-01-31T23:59:59Z",
    "ce-correlationid": "c",
    "ce-causationid": "d",
}
MAPPED = {field: f"X-{field.replace('_', '-')}" for field in FIELDS}


class TestWhatCannotBePrinted:
    """Columns travel as texts divided by such characters, and PostgreSQL refuses some: none may come from outside."""

    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize("coded", [True, False], ids=["percent-coded", "as it is"])
    def test_it_is_refused_in_every_field(self, field: str, coded: bool) -> None:
        by = reader(subjects="shop.>") if coded else reader(subjects="shop.>", headers=Headers(**MAPPED))
        names = {field: DEFAULTS[field] if coded else MAPPED[field] for field in FIELDS}
        usual = {names[field]: FULL[DEFAULTS[field]] for field in FIELDS}
        for letter in UNPRINTABLE:
            if not coded and letter in "\r\n":  # then it is another header
                continue
            raw = letter.encode("utf-8", "surrogatepass")
            written = b"".join(b"%%%02X" % byte for byte in raw) if coded else raw
            begin, end = usual[names[field]][:10], usual[names[field]][11:] or "z"
            bad = head(usual | {names[field]: f"{begin}@{end}"}).replace(b"@", written)
            found = refused(arrival(bad), by)
            assert found.reason in (FIELDS[field], Reason.HEADERS), (letter, found.detail)
            assert found.headers == bad
        assert read(arrival(head(usual)), by).correlation == "c"

    def test_it_is_refused_in_the_subject_and_what_is_kept_of_it_is_refused_again(self) -> None:
        by = reader(subjects="shop.>")
        for letter in UNPRINTABLE:
            one = arrival(subject=f"shop.order.a{letter}b")
            found = refused(one, by)
            assert found.reason is Reason.SUBJECT
            assert "\0" not in found.subject
            found.subject.encode()
            again = by.reread(arrival(subject=found.subject), 42)
            assert isinstance(again, Unreadable)
            assert again.reason is Reason.SUBJECT

    def test_it_is_refused_in_what_names_an_event_elsewhere(self) -> None:
        by = reader(identity_fields=("order_id",))
        for letter in UNPRINTABLE:
            raw = head(without("ce-id")).replace(
                b"\r\n\r\n", b"\r\nNats-Msg-Id: a%bb\r\n\r\n" % letter.encode("utf-8", "surrogatepass")
            )
            if letter not in "\r\n":
                assert refused(arrival(raw)).reason in (Reason.IDENTITY, Reason.HEADERS)
            body = json.dumps({"order_id": f"a{letter}b"}).encode()
            assert refused(arrival(data=body), by).reason is Reason.IDENTITY

    @pytest.mark.parametrize("name", ["traceparent", "ce-traceparent", "tracestate", "ce-tracestate"])
    def test_a_trace_context_with_it_is_dropped_and_the_event_is_read(self, name: str) -> None:
        later, prefix = "01" + TRACE[2:] + "-x", "ce-" if name.startswith("ce-") else ""
        good = USUAL | {f"{prefix}traceparent": later, f"{prefix}tracestate": "a=b"}
        for letter in UNPRINTABLE:
            raw = letter.encode("utf-8", "surrogatepass")
            for written in (raw, b"".join(b"%%%02X" % byte for byte in raw), b"%FF"):
                if letter in "\r\n" and written is raw:
                    continue
                bad = head(good | {name: good[name] + "@x"}).replace(b"@", written)
                found = read(arrival(bad))
                if written is raw or prefix:
                    wanted = (None, None) if name.endswith("parent") else (later, None)
                    assert (found.traceparent, found.tracestate) == wanted, letter
        found = read(arrival(good))
        assert (found.traceparent, found.tracestate) == (later, "a=b")


class TestSubjectsThatAreNotText:
    def test_two_of_them_never_become_one_aggregate(self) -> None:
        by, headers = reader(), without("ce-aggregateid")
        raws = [
            f"shop.order.{raw}" for raw in ("\udcff", "\udcfe", "\ufffd")
        ]  # as the wire and the broker's API give them
        found = [refused(arrival(headers, subject=subject), by) for subject in raws]
        assert {one.reason for one in found} == {Reason.SUBJECT}
        assert "not UTF-8" in found[0].detail
        assert len({one.subject for one in found}) == 3

    def test_one_that_is_too_long_is_kept_whole_and_refused_again(self) -> None:
        long = "shop.order." + "x" * 600
        found = refused(arrival(without("ce-aggregateid"), subject=long))
        assert found.subject == long
        assert isinstance(
            reader().reread(arrival(without("ce-aggregateid"), subject=found.subject), 42), Unreadable
        )


BYTES = st.binary(max_size=200)
NAMES = st.sampled_from(
    [
        *USUAL,
        "ce-time",
        "ce-schemaversion",
        "ce-correlationid",
        "traceparent",
        "content-type",
        "Nats-Msg-Id",
        "X-Y",
    ]
)
VALUES = st.one_of(
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b"7", b"3", b"order.placed", b"%00", b"%FF", b"application/cloudevents+json", TRACE.encode()]
    ),
    BYTES,
)


class TestWhateverTheBytes:
    @settings(deadline=None)
    @given(
        st.lists(st.tuples(NAMES, VALUES), max_size=10),
        st.one_of(BYTES, st.just(BODY), st.text(alphabet='{}[]":,\\u0dD8', max_size=300).map(str.encode)),
        st.one_of(BYTES, st.just(REPLY)),
        st.text(max_size=30) | st.just("shop.order.7"),
        st.sampled_from(
            [
                {},
                {"identity_fields": ("order_id",)},
                {"hash": "canonical", "identity_scope": "type"},
                {"max_event_bytes": 20, "max_depth": 2},
            ]
        ),
    )
    def test_reading_never_raises_and_never_gives_what_postgresql_refuses(
        self,
        headers: list[tuple[str, bytes]],
        data: bytes,
        reply: bytes,
        subject: str,
        policy: dict[str, Any],
    ) -> None:
        raw = b"NATS/1.0\r\n" + b"".join(b"%b: %b\r\n" % (n.encode(), v) for n, v in headers) + b"\r\n"
        for ordered in (True, False):
            found = reader(ordered=ordered, **policy).read(arrival(raw, data, subject=subject, reply=reply))
            for field in () if found is None else msgspec.structs.fields(found):
                value = getattr(found, field.name)
                if isinstance(value, str):
                    assert "\0" not in value
                    value.encode()
                if isinstance(value, str) and isinstance(found, Delivery) and field.name != "problem":
                    assert is_printable(value, TEXT_BYTES)

    @given(BYTES | st.none(), BYTES)
    def test_not_even_of_a_head_that_is_none(self, raw: bytes | None, data: bytes) -> None:
        reader().read(arrival(raw, data))


def test_a_fault_of_ours_in_decoding_makes_an_event_unreadable_and_is_told_as_that() -> None:
    def broken(_: str) -> tuple[str | None, str | None]:
        raise KeyError("a fault of ours")

    one = reader()
    one._match = broken
    head = "".join(f"{name}: {value}\r\n" for name, value in USUAL.items())
    found = one.reread(Arrival("shop.order.7", REPLY, f"NATS/1.0\r\n{head}\r\n".encode(), BODY, 0.0), 42)

    assert isinstance(found, Unreadable)
    assert (found.reason, found.detail, found.data) == (Reason.FAULT, "KeyError: 'a fault of ours'", BODY)
