"""Check from the notes of borrowers that no slot was ever held twice."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Line = dict[str, Any]


@dataclass
class Hold:
    """A time in which a borrower surely held a slot: from the answer until the return, or the lease's end."""

    slot: str
    token: int
    node: str
    begin: float
    end: float


def holds(lines: Iterable[Line]) -> list[Hold]:
    """Every hold that borrowers noted. One that was killed was sure to hold until the lease it knew of was over."""
    found: dict[tuple[str, int], Hold] = {}
    for line in sorted(lines, key=lambda each: each["at"]):
        if line["event"] not in ("holds", "gives"):
            continue
        key = (line["slot"], int(line["token"]))
        if line["event"] == "gives":
            found[key].end = min(found[key].end, line["at"])
        elif key in found:
            found[key].end = max(found[key].end, line["until"])
        else:
            found[key] = Hold(*key, line["node"], line["at"], line["until"])
    return list(found.values())


def cut_by_dead_nodes(found: Iterable[Hold], lines: Sequence[Line], timeout_s: float) -> None:
    """End holds where the slot's node was dead for so long that the hub may have taken its slots away."""
    for name, killed, back in _silences(lines):
        if back - killed > timeout_s - 1:
            for hold in found:
                if hold.node == name and hold.begin < killed + timeout_s:
                    hold.end = min(hold.end, killed + timeout_s - 1)


def cut_by_expiry(
    found: Iterable[Hold],
    hub_log: str,
    timeout_s: float,
    standstills: Sequence[tuple[float, float]] | None = None,
) -> None:
    """End holds where a hub says that it took the slot's node off the books: at the end of the node's timeout.

    A node may live and be silent all the same: the hub that it speaks to stands still. When it was heard last is told
    by the time of Redis, so the clock of the hub may be off, and its line may come at any time after.
    With `standstills`, the begin and end of each in wall time, an expiry counts only when one of them explains it.
    """
    for node, heard in re.findall(r" WARNING +node expired node=(\S+) last_seen=(\S+)", hub_log):
        due = datetime.fromisoformat(heard).timestamp() + timeout_s
        if standstills is not None and not any(begin < due < end + timeout_s for begin, end in standstills):
            continue
        for hold in found:
            if hold.node == node and hold.begin < due:
                hold.end = min(hold.end, due)


def _silences(lines: Sequence[Line]) -> list[tuple[str, float, float]]:
    """(node, when it was killed, when the next one was announced)"""
    killed: dict[str, float] = {}
    found = []
    for line in sorted(lines, key=lambda each: each["at"]):
        if line["event"] == "killed":
            killed.setdefault(line["who"], line["at"])
        elif line["event"] == "announced" and line["who"] in killed:
            found.append((line["who"], killed.pop(line["who"]), line["at"]))
    return found + [(name, at, float("inf")) for name, at in killed.items()]


def broken(found: Sequence[Hold], lines: Iterable[Line]) -> list[str]:
    """Every slot held by two at once, every token not above the one before, every hold the hub denied meanwhile."""
    held = {(hold.slot, hold.token): hold for hold in found}
    denied = [(line, held[line["slot"], int(line["token"])]) for line in lines if line["event"] == "invalid"]
    return _held_twice(found) + [f"{hold} was denied: {line}" for line, hold in denied if line["at"] < hold.end]


def _held_twice(found: Iterable[Hold]) -> list[str]:
    by_slot: dict[str, list[Hold]] = defaultdict(list)
    for hold in found:
        by_slot[hold.slot].append(hold)
    wrong = []
    for slot, leases in by_slot.items():
        leases.sort(key=lambda hold: hold.begin)
        for before, after in itertools.pairwise(leases):
            if after.token <= before.token:
                wrong.append(f"{slot}: token {after.token} came after {before.token}")
            if after.begin < before.end:
                wrong.append(f"{slot}: held twice for {before.end - after.begin:.3f} s, {before} and {after}")
    return wrong


def unanswered(lines: Iterable[Line], patience_s: float) -> list[Line]:
    """Calls that ended so much later than they said, or never; one whose caller was killed had until then."""
    asked: dict[str, Line] = {}
    late = []
    for line in sorted(lines, key=lambda each: each["at"]):
        if line["event"] == "asks":
            asked[line["ask"]] = line
        over = [line["ask"]] if line["event"] == "ends" else []
        if line["event"] == "died":
            over = [name for name, ask in asked.items() if ask["who"] == line["who"]]
        ended = [asked.pop(name) for name in over if name in asked]
        late += [ask for ask in ended if line["at"] - ask["at"] > ask["wait"] + patience_s]
    return late + list(asked.values())


def revived(lines: Iterable[Line]) -> list[str]:
    """Return every lease that was valid, or held, after its return had been answered."""
    returned: dict[tuple[str, str], float] = {}
    wrong = []
    for line in sorted(lines, key=lambda each: each["at"]):
        if line["event"] == "returned":
            returned[line["slot"], line["token"]] = line["at"]
        elif line["event"] in ("revived", "holds") and (line["slot"], line["token"]) in returned:
            wrong.append(f"{line['slot']} under {line['token']} came back: {line}")
    return wrong


def expires_elsewhen(lines: Iterable[Line], by_s: float) -> list[str]:
    """Every lease of which a hub named an end that is off by more than that from the one its holder counted himself."""
    told = [line for line in lines if line["event"] == "holds"]
    return [
        f"{line['slot']} under {line['token']} ends {line['expires'] - line['until']:+.0f} s off: {line}"
        for line in told
        if abs(line["expires"] - line["until"]) > by_s
    ]


def ended_twice(notes: Iterable[Line]) -> list[str]:
    """Every task that was completed twice, or given out again after it was; one that failed may have another attempt.

    A note is written after its answer, by several processes: only what comes after it in one of them is surely later.
    """
    ends: dict[str, Line] = {}
    wrong = []
    for note in notes:
        if note["what"] == "ended" and note["outcome"] == "ok" and note["status"] == "completed":
            before = ends.setdefault(note["task"], note)
            if before is not note:
                wrong.append(f"two ends were taken: {before} and {note}")
        again = [task for task in note["tasks"] if task in ends] if note["what"] == "took" else []
        wrong += [f"{task} was given out after its end was taken: {ends[task]} and {note}" for task in again]
    return wrong
