"""Options that are written once, as a `TypedDict`, and shown in the signature of everything that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])


def spelt_out(options: type) -> Callable[[F], F]:
    """Let `help()` show each of `options` in the place of `**options: Unpack[...]`, which editors know already."""

    def shown(function: F) -> F:
        known = inspect.signature(function)
        plain = [each for each in known.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind)
            for name, kind in get_type_hints(options).items()
        ]
        function.__signature__ = known.replace(parameters=[*plain, *named])  # type: ignore[attr-defined]
        return function

    return shown
