"""A watchdog for the program of a node, because heartbeats alone only show that its process runs."""

from __future__ import annotations

from collections.abc import Callable

from hub.retries import now_s


class Watchdog:
    """A check before each heartbeat, so that the thread of a node does not keep it alive when its program hangs.

    `longest_s` is how many seconds the program may be silent (None: any number). `ask(function)` makes the program call
    the function as soon as it can; without `ask` the program has to call `made` by itself.
    """

    def __init__(self, longest_s: float | None, ask: Callable[[Callable[[], None]], None] | None = None) -> None:
        if longest_s is not None and not longest_s > 0:
            raise ValueError("max_silence must be more than 0 seconds")
        self._longest_s = longest_s
        self._ask = ask
        self._checks: list[Callable[[], object]] = []
        self._since_s: float | None = None  # when the unanswered question was asked; without `ask`, the last `made`

    def alive_while(self, check: Callable[[], object]) -> None:
        """Add a check: heartbeats are sent only while it returns true; raising counts as false."""
        self._checks.append(check)

    def made(self) -> None:
        """Note that the program does not hang at this moment."""
        self._since_s = None if self._ask else now_s()

    def stalled(self) -> str | None:
        """Return the reason not to send a heartbeat now; None when there is none."""
        for check in self._checks:
            name = getattr(check, "__name__", repr(check))
            try:
                if not check():
                    return f"{name} says that it does not get on"
            except Exception as error:  # noqa: BLE001 - any error counts as false
                return f"{name} raised {error!r}"
        if self._longest_s is None:
            return None
        if self._since_s is None:
            self._since_s = now_s()
            if self._ask is not None:
                self._ask(self.made)
            return None
        silent_s = now_s() - self._since_s
        return f"nothing was heard of its program for {silent_s:.1f} s" if silent_s > self._longest_s else None
