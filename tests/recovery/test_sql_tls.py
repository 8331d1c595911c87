"""A PostgreSQL that speaks TLS: what `sslmode` asks for is had, or refused in one sentence."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hub.errors import RecordsUnavailable, SourceRefused
from hub.recovery.models import SqlSource
from hub.recovery.sql import SqlRecords
from tests.certificates import Authority
from tests.recovery.databases import Database
from tests.recovery.loop.conftest import make_tables
from tests.recovery.loop.world import handled, note, notes
from tests.recovery.postgres import USER, Postgres
from tests.world import free_port

Opened = Callable[[SqlSource], SqlRecords]


class Servers(NamedTuple):
    """A server that takes nothing but TLS over TCP, and one that speaks none."""

    tls: Postgres
    plain: Postgres
    ports: tuple[int, int]
    trusted: Path  # the certificate of the authority that signed for the first
    other: Path  # of an authority that signed no certificate

    def source(self, options: str, *, host: str = "127.0.0.1", tls: bool = True) -> SqlSource:
        url = f"postgresql://{USER}@{host}:{self.ports[0 if tls else 1]}/postgres?{options}"
        return SqlSource(name="jobs", url=url, table="jobs", error_field="error")

    def seen(self) -> set[bool]:
        """Return for the connections over TCP whether they use TLS: {True}, {False}, both or none."""
        over_tcp = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL"
        return {row["ssl"] for server in (self.tls, self.plain) for row in server.execute(over_tcp)}


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    folder = Path(tempfile.mkdtemp(prefix="hub-tls-"))
    authority, other = Authority(folder), Authority(folder, "other")
    pair = authority.issue("localhost")
    (folder / "hba").write_text("local all all trust\nhostssl all all 127.0.0.0/8 trust\n")
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, USER, USER)
    ports = free_port(), free_port()
    both = {"listen_addresses": "127.0.0.1,127.0.0.2"}
    tls = Postgres(
        **both, port=str(ports[0]), ssl="on", ssl_cert_file=str(pair.cert), ssl_key_file=str(pair.key),
        hba_file=str(folder / "hba"),
    )  # fmt: skip
    plain = Postgres(**both, port=str(ports[1]))
    try:
        for server in (tls, plain):
            server.start()
            make_tables(Database("postgresql", "postgresql://postgres@/postgres", server))
        yield Servers(tls, plain, ports, authority.file, other.file)
    finally:
        tls.stop()
        plain.stop()
        shutil.rmtree(folder)


async def refusal(records: SqlRecords) -> str:
    with pytest.raises((RecordsUnavailable, SourceRefused)) as refused:
        await records.check()
    said = str(refused.value)
    assert "\n" not in said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_url_that_asks_for_encryption_gets_it(servers: Servers, opened: Opened, mode: str) -> None:
    certificate = "" if mode == "require" else f"&sslrootcert={servers.trusted}"
    records = opened(servers.source(f"sslmode={mode}{certificate}"))
    await records.check()
    assert servers.seen() == {True}


async def test_the_loop_works_over_tls(servers: Servers) -> None:
    database = Database("postgresql", "postgresql://postgres@/postgres", servers.tls)
    database.fill(20, "Pending")

    async def handler(record: Any, session: Any) -> None:
        await note(session, record)

    await handled(servers.source("sslmode=require"), handler)
    assert database.statuses() == {"Done": 20}
    assert len(notes(database)) == 20


@pytest.mark.parametrize("mode", ["require", "verify-full"])
async def test_a_server_without_tls_is_refused_in_one_sentence(servers: Servers, opened: Opened, mode: str) -> None:
    options = f"sslmode={mode}" + (f"&sslrootcert={servers.trusted}" if mode == "verify-full" else "")
    said = await refusal(opened(servers.source(options, tls=False)))
    assert "SSL" in said, said


async def test_a_server_that_requires_tls_refuses_a_client_without_it(servers: Servers, opened: Opened) -> None:
    assert "encryption" in await refusal(opened(servers.source("sslmode=disable")))


@pytest.mark.parametrize(("host", "trusted"), [("127.0.0.1", False), ("127.0.0.2", True)])
async def test_a_certificate_of_another_authority_or_for_another_name_is_refused(
    servers: Servers, opened: Opened, host: str, trusted: bool
) -> None:
    root = servers.trusted if trusted else servers.other
    said = await refusal(opened(servers.source(f"sslmode=verify-full&sslrootcert={root}", host=host)))
    assert "certificate" in said, said
