"""The processing loop for records in a database: it claims records and calls a handler with a session for each.

    async def handle(record: Record, session: AsyncSession) -> None:
        ...

    asyncio.run(process(SqlSource(name="mails", url="postgresql+asyncpg://...", table="mails"), handle))

`read_source` returns a source from the hub's recovery file. The loop needs `pip install 'capacity-hub[sql]'`.
"""

try:
    from hub.recovery.loop.processing import process
except ModuleNotFoundError as error:
    if not str(error.name).startswith("sqlalchemy"):
        raise
    why = "records need SQLAlchemy; run: pip install 'capacity-hub[sql]'"
    raise ModuleNotFoundError(why, name=error.name) from None

from hub.errors import SourceRefused
from hub.recovery.file import read_source, read_sources
from hub.recovery.loop.claims import Record
from hub.recovery.loop.counts import Counts
from hub.recovery.models import SqlSource

__all__ = ["Counts", "Record", "SourceRefused", "SqlSource", "process", "read_source", "read_sources"]
