"""What an error inside a batch means: everybody's outage, one event's data, or a fault of ours."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg import exceptions

from projectionist.core.postgres.connections import DatabaseRefusedError, DatabaseUnreachableError
from projectionist.core.postgres.error_class import ErrorClass, classify, is_transient

OUTAGES: list[BaseException] = [
    exceptions.ConnectionDoesNotExistError("gone"),
    exceptions.ConnectionFailureError("gone"),
    exceptions.SerializationError("40001"),
    exceptions.DeadlockDetectedError("40P01"),
    exceptions.TooManyConnectionsError("53300"),
    exceptions.DiskFullError("53100"),
    exceptions.LockNotAvailableError("55P03"),
    exceptions.QueryCanceledError("57014"),
    exceptions.AdminShutdownError("57P01"),
    exceptions.CrashShutdownError("57P02"),
    exceptions.CannotConnectNowError("57P03"),
    exceptions.ReadOnlySQLTransactionError("25006"),
    exceptions.IdleInTransactionSessionTimeoutError("25P03"),
    exceptions.TransactionTimeoutError("25P04"),
    exceptions.InvalidSQLStatementNameError("26000"),
    exceptions.StatementCompletionUnknownError("40003"),
    exceptions.ObjectNotInPrerequisiteStateError("55000"),
    exceptions.ObjectInUseError("55006"),
    exceptions.PostgresIOError("58030"),
    exceptions.UndefinedFileError("58P01"),
    exceptions.InternalServerError("XX000"),
    exceptions.DataCorruptedError("XX001"),
    exceptions.IndexCorruptedError("XX002"),
    exceptions.FDWError("HV000"),
    exceptions.ConfigFileError("F0000"),
    exceptions.InvalidCachedStatementError("cached plan must not change result type"),
    asyncpg.InternalClientError("unexpected state"),
    asyncpg.InterfaceError("connection is closed"),
    asyncpg.InterfaceError("cannot call Connection.fetch(): connection has been released back to the pool"),
    asyncpg.InterfaceError("pool is closing"),
    asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
    DatabaseUnreachableError("away"),
    DatabaseRefusedError("starting up"),
    ConnectionResetError("reset"),
    TimeoutError(),
]
NO_EVENT_IS_TO_BLAME: list[BaseException] = [
    exceptions.InsufficientPrivilegeError("42501"),
    exceptions.UndefinedTableError("42P01"),
    exceptions.UndefinedColumnError("42703"),
    exceptions.InvalidSchemaNameError("3F000"),
    exceptions.InvalidCatalogNameError("3D000"),
    exceptions.InvalidPasswordError("28P01"),
    exceptions.InFailedSQLTransactionError("25P02"),
    exceptions.FeatureNotSupportedError("0A000"),
]
DATA: list[BaseException] = [
    exceptions.CharacterNotInRepertoireError("22021"),
    exceptions.NumericValueOutOfRangeError("22003"),
    exceptions.UntranslatableCharacterError("22P05"),
    exceptions.InvalidTextRepresentationError("22P02"),
    exceptions.DataError("22000"),
    exceptions.CheckViolationError("23514"),
    exceptions.NotNullViolationError("23502"),
    exceptions.UniqueViolationError("23505"),
    exceptions.CardinalityViolationError("21000"),
    exceptions.ProgramLimitExceededError("54000"),
    exceptions.RaiseError("P0001"),
    exceptions.AssertError("P0004"),
    exceptions.CaseNotFoundError("20000"),
    exceptions.WithCheckOptionViolationError("44000"),
    exceptions.SQLRoutineError("2F000"),
    exceptions.ExternalRoutineError("38000"),
    exceptions.ExternalRoutineInvocationError("39000"),
    OverflowError("int too big to convert"),
]


@pytest.mark.parametrize("error", OUTAGES, ids=lambda e: type(e).__name__)
def test_time_alone_may_mend_an_outage(error: BaseException) -> None:
    assert is_transient(error)


@pytest.mark.parametrize("error", NO_EVENT_IS_TO_BLAME, ids=lambda e: type(e).__name__)
def test_rights_and_missing_tables_are_mended_by_somebody(error: BaseException) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize("error", OUTAGES + NO_EVENT_IS_TO_BLAME, ids=lambda e: type(e).__name__)
def test_an_outage_costs_no_event_an_attempt(error: BaseException) -> None:
    assert classify(error) is ErrorClass.INFRASTRUCTURE


@pytest.mark.parametrize("error", DATA, ids=lambda e: type(e).__name__)
def test_a_refused_value_is_looked_for(error: BaseException) -> None:
    assert classify(error) is ErrorClass.DATA


@pytest.mark.parametrize(
    "error",
    [
        *(AssertionError(), KeyError("x"), AttributeError(), RecursionError()),
        exceptions.PostgresSyntaxError("42601"),
        asyncpg.InterfaceError("the server expects 1 argument for this query, 2 were passed"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_wrong_call_is_neither_the_servers_fault_nor_that_of_a_value(error: BaseException) -> None:
    assert classify(error) is ErrorClass.BUG


def test_every_class_of_errors_that_postgresql_knows_has_an_answer() -> None:
    known = [
        error
        for error in vars(exceptions).values()
        if isinstance(error, type) and issubclass(error, asyncpg.PostgresError) and error.sqlstate
    ]
    assert len(known) > 200
    assert {classify(error("x")) for error in known} == set(ErrorClass)
