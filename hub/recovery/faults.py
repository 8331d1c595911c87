"""Translation of the errors of databases and drivers into errors of the hub, of one sentence each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc
from sqlalchemy.engine import make_url

from hub.errors import HubError, RecordsUnavailable
from hub.recovery.models import SqlSource
from hub.settings import mask_url
from hub.settings.knobs import MASK

_LONGEST = 300
_UNLIKE_A_WORD = 6  # a password of this many characters, not all letters, is in no message by chance
# Beginnings of SQLSTATE codes that may pass: connection, authorisation, no such database, roll-back, resources, system.
_AWAY = ("08", "28", "3D", "40", "53", "55P03", "57", "58", "XX")
_REFUSING = ("SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG", "SQLITE_RANGE", "SQLITE_MISUSE")
_DRIVERS = ("asyncpg", "psycopg", "sqlite3", "aiosqlite", "aiomysql", "asyncmy", "pymysql")
_KNOWN = (exc.SQLAlchemyError, OSError, TimeoutError, ValueError, TypeError, ArithmeticError)


@contextmanager
def translated_errors(source: SqlSource) -> Iterator[None]:
    """Run the block; raise errors of drivers and SQLAlchemy as `RecordsUnavailable` or `SourceRefused`."""
    try:
        yield
    except HubError:
        raise
    except Exception as error:
        if not isinstance(error, _KNOWN) and _root(type(error).__module__) not in _DRIVERS:
            raise
        raise as_hub_error(source, error) from None


def as_hub_error(source: SqlSource, error: Exception) -> HubError:
    """Return `RecordsUnavailable` for an error that may pass by itself, else `SourceRefused`, for an operator."""
    why = _why(source, error)
    if is_away(error):
        return RecordsUnavailable(str(source.refused("url", f"the database does not answer: {why}")))
    if isinstance(error, exc.SQLAlchemyError):
        return source.refused("table", f"the database refuses it: {why}")
    return source.refused("url", f"it cannot be used: {why}")


def is_away(error: Exception) -> bool:
    """Return whether the error says that the database is unreachable or too busy; False for a refused statement."""
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return True
    cause = _cause(error)
    if type(cause).__name__ == "InvalidCachedStatementError":  # the table has changed; the next statement succeeds
        return True
    if state := getattr(cause, "sqlstate", None):
        return str(state).startswith(_AWAY)
    if name := getattr(cause, "sqlite_errorname", None):
        return not str(name).startswith(_REFUSING)
    if isinstance(cause, ValueError | TypeError | ArithmeticError) and not isinstance(cause, OSError):
        return False
    if isinstance(error, exc.DBAPIError):
        return not isinstance(error, exc.ProgrammingError | exc.IntegrityError | exc.DataError | exc.NotSupportedError)
    return isinstance(error, OSError | TimeoutError | exc.TimeoutError) or not isinstance(error, exc.SQLAlchemyError)


def may_pass(error: BaseException) -> bool:
    """Return whether an error of a handler came from an unreachable database, and not from other code it called."""
    ours = isinstance(error, exc.SQLAlchemyError) or _root(type(error).__module__) in _DRIVERS
    if not ours and not (isinstance(error, OSError | TimeoutError) and _is_of_a_database(error)):
        return False
    return isinstance(error, Exception) and is_away(error)


def _is_of_a_database(error: BaseException) -> bool:
    """Return whether SQLAlchemy or a driver raised the error, perhaps through the standard library."""
    at, innermost = error.__traceback__, ""
    while at is not None:
        root = _root(at.tb_frame.f_globals.get("__name__", ""))
        innermost = innermost if root in sys.stdlib_module_names else root
        at = at.tb_next
    return innermost in ("sqlalchemy", *_DRIVERS)


def _root(module: str) -> str:
    return module.partition(".")[0]


def _cause(error: BaseException) -> BaseException:
    """Return the error that the driver itself raised."""
    if isinstance(error, exc.StatementError) and error.orig is not None:
        error = error.orig
        return error.__cause__ or error
    return error


def _why(source: SqlSource, error: Exception) -> str:
    cause = _cause(error)
    if isinstance(cause, TimeoutError | exc.TimeoutError):
        text = "it takes too long"
    elif isinstance(cause, OSError):
        text = cause.strerror or str(cause)
    else:
        words = [each for each in cause.args if isinstance(each, str)]  # drivers of MySQL put a number before the text
        text = words[0] if words else str(cause)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(cause).__name__)
    first = mask_url(re.sub(r"^<class '[^']*'>: ", "", first))
    return _without_password(first, source)[:_LONGEST].rstrip(" .:;")


def _without_password(text: str, source: SqlSource) -> str:
    """Return the text with the password of the source replaced by `***`.

    A password that could be a word (short, or of letters alone) is replaced only where it stands as a value, such as
    behind `=`: a gap in a known sentence would tell the password to every reader. A password that is also the name of
    the user, the database or the host is not replaced, because these names are shown.
    """
    try:
        url = make_url(source.url)
    except (exc.ArgumentError, ValueError):
        return text
    password = str(url.password or "")
    if not password or password in (url.username, url.database, url.host):
        return text
    if len(password) >= _UNLIKE_A_WORD and not password.isalpha():
        return text.replace(password, MASK)
    return re.sub(rf"(?<=[:=@'\"`]){re.escape(password)}(?!\w)", MASK, text)
