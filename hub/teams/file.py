"""The rows of `HUB_TEAMS_FILE`, a TOML file with one `[[teams]]` table for each row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hub.errors import StartRefused
from hub.observability.logs import get_logger
from hub.settings.toml import read_fields, read_toml
from hub.teams.models import (
    ROWS_MAX,
    TeamRow,
    check_row,
    read_ceiling,
    read_guarantee,
    read_pattern,
    read_weight,
)
from hub.tokens.models import read_team

BY: Final = "file"  # who has set the rows of the file
_log = get_logger("hub.teams")
_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "team": read_team,
    "label": read_pattern,
    "guarantee": read_guarantee,
    "ceiling": read_ceiling,
    "weight": read_weight,
}


class TeamsFile:
    """The rows of the teams file, as of the last time it was read without a fault; none without a path."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: list[TeamRow] = []
        self.readings = 0  # how often the file was read without a fault
        self.read()

    def read(self) -> None:
        """Read the file; raises `StartRefused` with one sentence for a fault, and then the rows stay as they were."""
        if self.path is not None:
            self.rows = read_teams(self.path)
            self.readings += 1
            _log.info("teams file loaded", path=str(self.path), rows=len(self.rows))

    def read_again(self) -> None:
        """Read the file again while the hub serves; for a faulty file log an error, and keep the rows as they were."""
        try:
            self.read()
        except StartRefused as error:
            rejected(error, len(self.rows))


def rejected(error: StartRefused, kept: int) -> None:
    """Log that a file changes nothing while the hub serves, and how many rows stay."""
    _log.error("teams file rejected", why=str(error), rows_kept=kept)


def read_teams(path: Path) -> list[TeamRow]:
    """Return the rows of a file; raises `StartRefused`, whose sentence names file, entry and field."""
    found: dict[tuple[str, str], int] = {}
    rows = []
    for number, entry in enumerate(read_toml(f"HUB_TEAMS_FILE={path}", path, "teams"), 1):
        try:
            row = _row(entry)
            if (first := found.setdefault((row.team, row.pattern), number)) != number:
                raise ValueError(f"team and label are those of entry {first} again")
            if number > ROWS_MAX:
                raise ValueError(f"there may be at most {ROWS_MAX}; use patterns with *")
        except ValueError as error:
            raise StartRefused(f"HUB_TEAMS_FILE={path}, entry {number}: {error}.") from None
        rows.append(row)
    return rows


def _row(entry: dict[str, Any]) -> TeamRow:
    fields = read_fields(entry, _FIELDS, "team")
    for name in ("team", "label"):
        if name not in fields:
            raise ValueError(f"{name} is missing")
    return check_row(TeamRow(pattern=fields.pop("label"), by=BY, **fields))
