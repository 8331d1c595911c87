"""The old names, which a caller who asks for neutral ones never gets."""

from __future__ import annotations

import re
from typing import Any

OLD = re.compile(r"[bB]rowser|[pP]laywright|webSocket|labelKey|matchedLabel|poolLabel|leaseToken|Utc$|_")


def members(document: Any) -> set[str]:
    """Return every name that stands in a document."""
    if isinstance(document, dict):
        return set(document) | {name for each in document.values() for name in members(each)}
    return {name for each in document for name in members(each)} if isinstance(document, list) else set()


def old_names(document: Any) -> list[str]:
    """Return the old names among these."""
    return sorted(name for name in members(document) if OLD.search(name))
