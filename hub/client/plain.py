"""Log lines without anything that a terminal would obey: a hub may say what others have chosen."""

from __future__ import annotations

import logging


def plain_logs(form: str, level: int) -> None:
    """Write the logs of this process to stderr in a form as of `logging`, a line each, unless they go somewhere."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine(form))
    logging.basicConfig(level=level, handlers=[handler])


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the class above has it
        """Return the line of a record, with escapes for what is no ordinary character."""
        line = super().formatMessage(record)
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
