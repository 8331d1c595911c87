"""The holder of a lease or a ticket, in the words of an explanation."""

from __future__ import annotations

from typing import Any

from hub.capacity.models import LeaseHolder, LeaseRecord


def holder_facts(holder: LeaseHolder | None) -> dict[str, Any]:
    """Return the holder, and the name of its run, as members of the facts; none where they are not known."""
    if holder is None:
        return {}
    return {"holder": holder.shown(), **({"runName": holder.run_name} if holder.run_name else {})}


def held_by(session: LeaseRecord) -> str:
    """Return the holder of a lease and its run as the beginning of a sentence; the run alone where nothing names the
    holder but its address."""
    holder, run = session.holder, session.run or "(none)"
    if holder is None:
        return f"Run {run}"
    run = f"{holder.run_name} ({run})" if holder.run_name else run
    if session.run and not holder.user and holder.name in ("", holder.client or "unknown", holder.run_name):
        return f"Run {run}"
    who = f"{holder.user} ({holder.name})" if holder.user else holder.name
    return f"{who}, run {run},"
