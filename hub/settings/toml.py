"""The reading of a TOML file with one list of tables; an unusable file is refused in one sentence."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hub.errors import StartRefused


def read_toml(where: str, path: Path, table: str) -> list[dict[str, Any]]:
    """Return the `[[table]]` entries of the file, which may hold nothing else.

    Raises `StartRefused` with a sentence that begins with `where`. It quotes nothing of a file that is no TOML, because
    the text may be a secret.
    """

    def refused(why: str) -> StartRefused:
        return StartRefused(f"{where}{why}.")

    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise refused(f" cannot be read: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise refused(" is no UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        place = re.search(r"\(at [a-z0-9 ,]+\)", str(error))
        raise refused(f" is no TOML {place.group()}" if place else " is no TOML") from None
    for name in document:
        if name != table:
            raise refused(f": {name[:40]!r} means nothing at the top; write one [[{table}]] per {table[:-1]}")
    entries = document.get(table, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise refused(f": {table} is no list of tables; write [[{table}]] above each {table[:-1]}")
    return entries


def read_fields(entry: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]], what: str) -> dict[str, Any]:
    """Return the fields of an entry, each as its reader returns it; raises ValueError, a sentence about one field."""
    fields = {}
    for field, value in entry.items():
        if field not in readers:
            raise ValueError(f"{field[:40]!r} is no field of a {what}; there are {', '.join(readers)}")
        try:
            fields[field] = readers[field](value)
        except ValueError as error:
            raise ValueError(f"{field} {error}") from None
    return fields
