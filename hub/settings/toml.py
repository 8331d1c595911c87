"""A TOML file that a setting names, read with one sentence for whatever keeps it from being used."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hub.errors import StartRefused


def read_toml(setting: str, path: Path, table: str) -> list[Any]:
    """The `[[table]]` entries of the file, which holds nothing else; raises `StartRefused`, and shows nothing of a file
    that is no TOML: what stands there may be a secret.
    """

    def refused(why: str) -> StartRefused:
        return StartRefused(f"{setting}={path}{why}.")

    try:
        document = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise refused(f" cannot be read: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise refused(" is no UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        where = re.search(r"\(at [a-z0-9 ,]+\)", str(error))
        raise refused(f" is no TOML {where.group()}" if where else " is no TOML") from None
    for name in document:
        if name != table:
            raise refused(f": {name[:40]!r} means nothing at the top; write one [[{table}]] per {table[:-1]}")
    entries = document.get(table, [])
    if not isinstance(entries, list):
        raise refused(f": {table} is no list; write [[{table}]] above each {table[:-1]}")
    return entries
