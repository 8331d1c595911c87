"""The file of the contract: what is served, and what a change of the code is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hub.api.app import routes
from hub.api.contract.document import document

FILE: Final = Path(__file__).with_name("openapi.json")


def written() -> dict[str, Any]:
    """What the code says now."""
    return document(routes())
