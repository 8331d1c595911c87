"""The files of the embedded server are of one user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hub.errors import StartRefused
from hub.store.embedded import EmbeddedRedis

NOBODY = 65_534


def modes(folder: Path) -> dict[str, int]:
    """Path below the folder, and "." -> what its owner and others may do."""
    paths = [folder, *(path for path in folder.rglob("*") if not stat.S_ISSOCK(path.stat().st_mode))]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in paths}


async def run(folder: Path) -> dict[str, int]:
    """Return the modes while a server uses the folder."""
    server = EmbeddedRedis(folder)
    await server.start()
    try:
        return modes(folder)
    finally:
        await server.stop()


async def test_no_other_user_can_read_what_the_server_writes_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        seen = await run(tmp_path / "data")
    finally:
        os.umask(before)
    assert {"redis.log", "users.lock", "server.lock", "appendonlydir"} < set(seen)
    assert {name: mode for name, mode in seen.items() if mode & 0o077} == {}


async def test_files_that_others_could_read_are_made_private_at_the_start(tmp_path):
    data = tmp_path / "data"
    await run(data)
    for path in (data, data / "appendonlydir"):
        path.chmod(0o755)
    for path in (data / "redis.log", *(data / "appendonlydir").iterdir()):
        path.chmod(0o644)
    assert {name: mode for name, mode in (await run(data)).items() if mode & 0o077} == {}


@pytest.mark.parametrize("mode", [0o702, 0o720, 0o777, 0o1777])
async def test_a_folder_that_others_can_write_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(StartRefused, match="others can write to it; chmod 700"):
        await EmbeddedRedis(tmp_path).start()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else")
@pytest.mark.parametrize("through_a_link", [False, True])
async def test_a_folder_of_another_user_is_refused(tmp_path, through_a_link):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, NOBODY, -1)
    (tmp_path / "link").symlink_to(theirs)
    with pytest.raises(StartRefused, match="it belongs to nobody"):
        await EmbeddedRedis(tmp_path / "link" if through_a_link else theirs).start()
    assert list(theirs.iterdir()) == []
