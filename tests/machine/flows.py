"""How much can go from one point to another at once."""

from __future__ import annotations

Room = dict[str, dict[str, int]]  # from a point to those after it: how much may go there


def flow(room: Room) -> int:
    """Return how much can go from the point `from` to the point `to`. What goes is taken from the room."""

    def push(at: str, seen: set[str]) -> bool:
        if at == "to":
            return True
        seen.add(at)
        for other in [other for other, left in room.get(at, {}).items() if left > 0 and other not in seen]:
            if push(other, seen):
                room[at][other] -= 1
                back = room.setdefault(other, {})
                back[at] = back.get(at, 0) + 1
                return True
        return False

    found = 0
    while push("from", set()):
        found += 1
    return found
