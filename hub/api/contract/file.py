"""The files of the contract: what is served, and what a change of the code is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hub.api.app import routes
from hub.api.contract import asyncapi
from hub.api.contract.document import document

FILE: Final = Path(__file__).with_name("openapi.json")
SPOKEN: Final = Path(__file__).with_name("asyncapi.json")


def written() -> dict[Path, dict[str, Any]]:
    """What the code says now, by the file it stands in."""
    return {FILE: document(routes()), SPOKEN: asyncapi.document()}
