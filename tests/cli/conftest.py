"""The `hub` command, pointed at a real hub or at none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.world import HubProcess


@pytest.fixture
def command(live_hub: HubProcess, tmp_path: Path) -> Iterator[Command]:
    """The command with the address and the secrets of `live_hub`."""
    made = Command(live_hub, tmp_path)
    yield made
    made.close()


@pytest.fixture
def lone_command(tmp_path: Path) -> Iterator[Command]:
    """The command on a machine where nothing is set and no hub listens."""
    made = Command(None, tmp_path)
    made.environment["HUB_URL"] = "http://127.0.0.1:9"
    yield made
    made.close()
