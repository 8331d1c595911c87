"""Log lines without control characters, because a hub may send texts that strangers have chosen."""

from __future__ import annotations

import logging


def plain_logs(form: str, level: int) -> None:
    """Write log records to stderr in the format `form`, one line each, unless logging is set up already."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine(form))
    logging.basicConfig(level=level, handlers=[handler])


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in the base class
        """Return the line of a record, with each unprintable character escaped."""
        line = super().formatMessage(record)
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
