"""The claiming of records, which goes on when a record is faulty or the table has changed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from hub.errors import HubError, SourceRefused
from hub.recovery.faults import as_hub_error, is_away
from hub.recovery.loop.claims import AT_ONCE, Claims, RecordClaim, Untaken
from hub.recovery.loop.counts import log_event
from hub.recovery.loop.sessions import SessionTrouble
from hub.recovery.loop.shutdown import Shutdown
from hub.recovery.rows import Rows
from hub.retries import now_s

CLAIM_S = 30.0
MOST_LEFT_OUT = 500  # records left out at once; beyond that, the record left out longest ago is tried again
LEFT_OUT_S = 300.0  # a record left out is tried again after this long: it may have been repaired


@dataclass(eq=False)
class Intake:
    """The claimer of a loop. After a refusal it claims fewer records, and leaves out records that it cannot claim."""

    claims: Claims
    read_table: Callable[[], Awaitable[Rows]]
    shutdown: Shutdown
    trouble: SessionTrouble
    claimed: Collection[Any]

    def __post_init__(self) -> None:
        self._source = self.claims.rows.source
        self.most = AT_ONCE  # how many records the next call of `take` claims at most
        self._left_out: dict[Any, float] = {}  # id of a record that cannot be claimed -> since when
        self._suspect: Any = None
        self._in_a_row = 0

    async def ready(self) -> bool | None:
        """Return whether a record can be claimed; None when the database does not answer."""
        self._left_out = {id: since for id, since in self._left_out.items() if now_s() - since < LEFT_OUT_S}
        try:
            while self.claims.doubtful:
                await self._settle_doubts()
            return await self.shutdown.timeout(self.claims.ready(self._left_out), CLAIM_S)
        except Exception as error:  # noqa: BLE001 - `_refused` deals with it
            self.claims.tried = []
            await self._refused(error)
            return None

    async def take(self, room: int) -> list[RecordClaim] | None:
        """Claim up to `room` records and return the claims; None when the database does not answer or refuses.

        A commit without an answer may have claimed records; the next call gives them back, because no handler runs for
        them. Raises `SourceRefused`.
        """
        if not (ready := await self.ready()):
            return None if ready is None else []
        but = dict.fromkeys(chain(self._left_out, self.claimed))
        try:
            taken = await self.shutdown.timeout(self.claims.take(min(room, self.most), but), CLAIM_S)
        except SourceRefused:
            raise
        except Exception as error:  # noqa: BLE001 - it may pass; `_refused` deals with it
            await self._refused(error)
            return None
        self.trouble.over()
        self._in_a_row = 0
        self._suspect = None
        self.most = min(AT_ONCE, self.most * 2)
        return taken

    async def _settle_doubts(self) -> None:
        try:
            await self.shutdown.timeout(self.claims.give_back_doubtful(), CLAIM_S)
        except Exception as error:
            if is_away(error):
                raise
            doubtful, self.claims.doubtful = self.claims.doubtful, {}
            why = as_hub_error(self._source, error)
            log_event(
                logging.CRITICAL, "ZOMBIE RECORD ALERT", source=self._source.name, ids=list(doubtful)[:10], why=why
            )

    async def _refused(self, error: Exception) -> None:
        """Note an error of a claim; for the next one read the table anew, halve the batch or leave a record out."""
        if is_away(error) and not isinstance(error, Untaken):
            self.trouble.met(as_hub_error(self._source, error))
            return
        try:
            rows = await self.shutdown.timeout(self.read_table(), CLAIM_S)
        except Exception as trouble:  # noqa: BLE001 - logged by `met`
            self.trouble.met(trouble if isinstance(trouble, HubError) else as_hub_error(self._source, trouble))
            return
        changed = _shape(rows) != _shape(self.claims.rows)
        self.claims.use(rows)
        if changed:
            log_event(logging.WARNING, "the table has changed", source=self._source.name, columns=rows.table.c.keys())
        elif len(self.claims.tried) > 1:
            self.most = max(1, len(self.claims.tried) // 2)
        elif self.claims.tried and self.claims.tried[0] == self._suspect:
            self._leave_out(self._suspect, error)
        elif self.claims.tried:
            self._suspect = self.claims.tried[0]  # left out if the next try fails too: the fault may be the table's
        else:
            self.trouble.met(as_hub_error(self._source, error))

    def _leave_out(self, id: Any, error: Exception) -> None:
        why = error if isinstance(error, Untaken) else as_hub_error(self._source, error)
        log_event(logging.ERROR, "record cannot be claimed", source=self._source.name, id=id, why=why)
        self._left_out[id] = now_s()
        for first in list(islice(self._left_out, max(0, len(self._left_out) - MOST_LEFT_OUT))):
            del self._left_out[first]
        self._in_a_row += 1
        if self._in_a_row > 1:  # perhaps no record can be claimed, so pause between the tries
            self.trouble.met(why)


def _shape(rows: Rows) -> list[tuple[str, str]]:
    return [(column.name, repr(column.type)) for column in rows.table.c]
