"""Progress: the reports that running tasks send (a share done, a message, log lines)."""

from __future__ import annotations

from collections.abc import Sequence

from hub.batched import batched
from hub.jobs.models import Outcome, ReportedProgress
from hub.jobs.workers import not_yours, unknown
from hub.randoms import random_hex
from hub.store.store import Store

BATCH = 64  # tasks per script
TEXT_BYTES = 4096  # most bytes of a log line; a longer line is cut
MESSAGE_BYTES = 1024  # most bytes of a message; a longer message is cut


class Progress:
    """The reports of running tasks, which the store keeps."""

    def __init__(self, store: Store) -> None:
        self._progress = store.script("tasks/progress")

    async def note(
        self, worker: str, user: str, reports: Sequence[ReportedProgress], request: str = ""
    ) -> list[Outcome]:
        """Store reports of the tasks of a worker; return a word per report: ok, gone, forbidden or conflict. Raises
        `WorkerNotFound` and `Forbidden`.

        A repeat with the same `request` stores nothing again.
        """
        words: list[Outcome] = []
        request = f"{user}:{request}" if request else random_hex(6)
        for batch in batched(reports, BATCH):
            rest = [text for report in batch for text in _texts(report)]
            reply = await self._progress(worker=worker, user=user, request=request, rest=rest)
            if reply == ["worker"]:
                raise unknown(worker)
            if reply == ["owner"]:
                raise not_yours(worker)
            words += reply
        return words


def _texts(report: ReportedProgress) -> tuple[str, ...]:
    share = "" if report.progress is None else f"{report.progress:.6g}"
    log = [cut(text, TEXT_BYTES) for given in report.log for text in given.splitlines() if text.strip()]
    return report.task, report.claim, share, cut(" ".join(report.message.split()), MESSAGE_BYTES), "\n".join(log[-100:])


def cut(text: str, most: int) -> str:
    """Return the text cut to at most `most` bytes of UTF-8, without half a character at its end."""
    return text if len(text) * 4 <= most else text.encode()[:most].decode(errors="ignore")
