"""The steps of the machine of jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis.stateful import rule


def step(**how: Any) -> Callable[[Callable[..., None]], Any]:
    """A rule that counts when it has called the store."""

    def wrap(method: Callable[..., None]) -> Any:
        @wraps(method)
        def counted(self: Any, **arguments: Any) -> None:
            before = self.direct.calls
            method(self, **arguments)
            type(self).steps += self.direct.calls > before

        return rule(**how)(counted)

    return wrap
