"""The processing loop for records in a database: claims them, handles each in its own session, leaves none behind.

    async def handle(record: Record, session: AsyncSession) -> None:
        ...

    asyncio.run(process(SqlSource(name="mails", url="postgresql+asyncpg://...", table="mails"), handle))

`read_source` finds one in the file in which the hub's recovery has them. It needs `pip install 'capacity-hub[sql]'`.
"""

try:
    from hub.client.records.processing import process
except ModuleNotFoundError as error:
    if not str(error.name).startswith("sqlalchemy"):
        raise
    why = "records need SQLAlchemy; run: pip install 'capacity-hub[sql]'"
    raise ModuleNotFoundError(why, name=error.name) from None

from hub.client.records.claims import Record
from hub.client.records.counts import Counts
from hub.errors import SourceRefused
from hub.records.file import read_source, read_sources
from hub.records.models import SqlSource

__all__ = ["Counts", "Record", "SourceRefused", "SqlSource", "process", "read_source", "read_sources"]
