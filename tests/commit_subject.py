#!/usr/bin/env python3
"""The `commit-msg` hook: a subject is imperative, begins with a capital letter, and has 72 characters at most."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST = 72
# First words that tell a thing or a state, and no order: "Fixes ...", "Added ...", "The ...".
VERBS = {"Bring", "Embed", "Feed", "Need", "Ping", "Ring", "Seed", "Shed", "Speed"}
NO_ORDERS = {"a", "an", "the", "this", "that", "these", "those", "what", "who", "where", "when", "it", "some", "no"}


def fault(message: str) -> str | None:
    """Return what is wrong with the subject of a commit message, None where nothing is."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0].strip() if lines else ""
    first = subject.partition(" ")[0]
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return None
    if not subject:
        return "it is empty"
    if len(subject) > LONGEST:
        return f"it has {len(subject)} characters, {LONGEST} at most"
    told = first not in VERBS and first.endswith(("ed", "ing"))
    if not first[:1].isupper() or first.lower() in NO_ORDERS or told:
        return f"it begins with {first!r}; begin with a verb that gives an order, such as Refuse, Add, Keep"
    if subject.endswith("."):
        return "it ends with a dot"
    if len(lines) > 1 and lines[1].strip():
        return "its second line is not empty"
    return None


if __name__ == "__main__":
    if found := fault(Path(sys.argv[1]).read_text()):
        sys.exit(f"The subject of this commit: {found}.")
