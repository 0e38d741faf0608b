"""Composes the bytes of a mail from an intent. Pure: the same intent gives the same bytes."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from typing import Any

import msgspec

from projectionist.outbox.providers.base import RenderError, Request
from projectionist.outbox.providers.outgoing_headers import trace_context
from projectionist.outbox.providers.templates import fill, names

_DOT_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_HOST_NAME = re.compile(r"([A-Za-z0-9_-]+\.)*(?!\d+$|0[xX])[A-Za-z0-9-]+")
"""A name, and no address in any spelling: what ends in a number is one to most resolvers."""
_POLICY = SMTP.clone(max_line_length=78, cte_type="7bit")


class Template(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The texts of a mail, with `{field}` of the intent; in `html` the values are escaped."""

    subject: str
    text: str = ""
    html: str = ""

    def __post_init__(self) -> None:
        for part in (self.subject, self.text, self.html):
            names(part)


class FrozenMail(msgspec.Struct, frozen=True):
    """The frozen part of a mail: the envelope and the message, header and body, in ASCII."""

    sender: str
    recipients: list[str]
    message: str


def compose(
    request: Request, sender: str, template: Template | None, *, allow_literals: bool = False
) -> FrozenMail:
    """Compose the mail for an intent: its fields `to`, `cc`, `bcc`, `reply_to`, and either the template's text or its
    own `subject`, `text`, `html`; with neither, its fields are listed.

    Raises RenderError for an address or a header that no mail can carry.
    """
    fields = request.fields()
    origin = address(sender, allow_literals=True)
    message = EmailMessage(policy=_POLICY)
    recipients = _addressed(message, fields, origin, allow_literals)
    message["Message-ID"] = f"<{request.key}@{origin.domain}>"
    message["Date"] = request.due or request.created
    message["Auto-Submitted"] = "auto-generated"
    for name, value in trace_context(request)[:1]:
        message[name.capitalize()] = value
    subject, text, rich = _said(request, fields, template)
    _put(message, "Subject", subject)
    message.set_content(text)
    if rich:
        message.add_alternative(rich, subtype="html")
        message.set_boundary(f"={request.key}=")
    return FrozenMail(origin.addr_spec, recipients, message.as_bytes().decode("ascii"))


def address(text: str, *, allow_literals: bool = False) -> Address:
    """Parse exactly one mail address, with or without a name; RenderError for anything else (also for two).

    Unless allowed, its parts are plain: a domain in brackets asks the mail server to connect to an address, perhaps one
    inside, and weak servers misread quoted local parts.
    """
    try:
        header = SMTPUTF8.header_factory("to", text)
        found = header.addresses
        named_group = any(group.display_name is not None for group in header.groups)
    except (ValueError, IndexError, AttributeError):
        raise RenderError("a mail address cannot be read") from None
    if len(found) != 1 or named_group or header.defects or not found[0].username or not found[0].domain:
        raise RenderError("a field that must hold one mail address does not")
    if not found[0].addr_spec.isascii():
        raise RenderError("a mail address holds characters outside ASCII, which few servers take")
    only: Address = found[0]
    if not allow_literals and not (_DOT_ATOM.fullmatch(only.username) and _HOST_NAME.fullmatch(only.domain)):
        raise RenderError(
            "a mail address has a quoted local part, or a domain that is an address and not a name",
            remedy="If such recipients are meant, set allow_literals = true for this provider",
        )
    return only


def _addressed(
    message: EmailMessage, fields: Mapping[str, Any], origin: Address, allow_literals: bool
) -> list[str]:
    message["From"] = origin
    recipients = []
    for name in ("to", "cc", "bcc"):
        texts = _listed(fields.get(name), name)
        addresses = [address(text, allow_literals=allow_literals) for text in texts]
        recipients += [one.addr_spec for one in addresses]
        if addresses and name != "bcc":
            message[name.capitalize()] = addresses
    if fields.get("reply_to"):
        texts = _listed(fields["reply_to"], "reply_to")
        message["Reply-To"] = [address(text, allow_literals=allow_literals) for text in texts]
    if not recipients:
        raise RenderError("the intent has no recipient", remedy="Give it a field `to`")
    return list(dict.fromkeys(recipients))


def _listed(value: Any, name: str) -> list[str]:
    texts = value if isinstance(value, list) else [value] if value else []
    if not all(isinstance(text, str) for text in texts):
        raise RenderError(f"the field {name!r} is not an address or a list of them")
    return texts


def _said(request: Request, fields: Mapping[str, Any], template: Template | None) -> tuple[str, str, str]:
    if template is not None:
        rich = fill(template.html, fields, html.escape)
        return fill(template.subject, fields), fill(template.text, fields), rich
    if isinstance(fields.get("subject"), str):
        return fields["subject"], str(fields.get("text") or ""), str(fields.get("html") or "")
    listed = "".join(
        f"{name}: {value}\n" for name, value in fields.items() if name not in ("to", "cc", "bcc")
    )
    return request.intent, listed, ""


def _put(message: EmailMessage, name: str, value: str) -> None:
    try:
        message[name] = value
    except ValueError:
        raise RenderError(f"the {name} of the mail holds a line break") from None
