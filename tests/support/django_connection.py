"""Django's connection to a test's database, as Django makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import psycopg.conninfo


@contextmanager
def django_connection(url: str, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the connection `default` and `django.db.transaction`. Django has no types, and none are worth it here."""
    django, db, utils = map(import_module, ("django", "django.db", "django.db.utils"))
    if not (found := import_module("django.conf").settings).configured:
        found.configure()
        django.setup()
    address = psycopg.conninfo.conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    database = {name: address.get(word, "") for name, word in names.items()}
    handler = utils.ConnectionHandler(
        {"default": {"ENGINE": "django.db.backends.postgresql", **database, "OPTIONS": options}}
    )
    db.connections["default"] = connection = handler["default"]
    try:
        yield connection, db.transaction
    finally:
        connection.close()
        del db.connections["default"]
