"""The function that makes the records object of a source, by the kind of the source."""

from __future__ import annotations

from hub.recovery.models import RedisSource, Source, SqlSource, TaskSource
from hub.recovery.records import Records
from hub.settings import Settings
from hub.store.store import Store


def open_records(source: Source, store: Store | None, settings: Settings | None = None) -> Records:
    """Return the `Records` of a source, not connected yet. `store` is the hub's own, for records that are in it.

    Raises `SourceRefused` for a faulty address or a missing driver.
    """
    # The imports are here because SQLAlchemy is an extra, which a hub need not have.
    match source:
        case SqlSource():
            try:
                from hub.recovery.sql import SqlRecords
            except ImportError as error:
                if (error.name or "").partition(".")[0] != "sqlalchemy":
                    raise
                raise source.refused("kind", "SQLAlchemy is not there; pip install 'capacity-hub[sql]'") from None
            return SqlRecords(source)
        case RedisSource() if store is not None or source.url is not None:
            from hub.recovery.hashes import HashRecords

            return HashRecords(source, store, settings)
        case TaskSource() if store is not None:
            from hub.recovery.tasks import TaskRecords

            return TaskRecords(source, store)
    raise source.refused("kind", "its records are in the store of the hub, which is not open")
