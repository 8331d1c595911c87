"""Progress: what tasks say of themselves while they run."""

from __future__ import annotations

from collections.abc import Sequence

from hub.jobs.models import Outcome, Said
from hub.jobs.workers import not_yours, unknown
from hub.randoms import random_hex
from hub.store.store import Store

BATCH = 64  # tasks per script
TEXT_BYTES = 4096  # of a text of a log; a longer one is cut
MESSAGE_BYTES = 1024


class Progress:
    """Takes what tasks say, for those that ask for one."""

    def __init__(self, store: Store) -> None:
        self._progress = store.script("tasks/progress")

    async def note(self, worker: str, user: str, said: Sequence[Said], request: str = "") -> list[Outcome]:
        """Note what tasks say of themselves; return a word per task: ok, gone, forbidden or conflict. Raises
        `WorkerNotFound` and `Forbidden`.

        A repeat with the same `request` notes nothing anew.
        """
        words: list[Outcome] = []
        request = f"{user}:{request}" if request else random_hex(6)
        for start in range(0, len(said), BATCH):
            rest = [text for each in said[start : start + BATCH] for text in _texts(each)]
            reply = await self._progress(worker=worker, user=user, request=request, rest=rest)
            if reply == ["worker"]:
                raise unknown(worker)
            if reply == ["owner"]:
                raise not_yours(worker)
            words += reply
        return words


def _texts(said: Said) -> tuple[str, ...]:
    share = "" if said.progress is None else f"{said.progress:.6g}"
    log = [cut(text, TEXT_BYTES) for given in said.log for text in given.splitlines() if text.strip()]
    return said.task, said.claim, share, cut(" ".join(said.message.split()), MESSAGE_BYTES), "\n".join(log[-100:])


def cut(text: str, most: int) -> str:
    """Return as much of a text as has so many bytes."""
    return text if len(text) * 4 <= most else text.encode()[:most].decode(errors="ignore")
