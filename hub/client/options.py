"""Options that are written once, as a `TypedDict`, and shown in the signature of each function that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_args, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


def spelt_out(options: type, defaults: Mapping[str, object] = MappingProxyType({})) -> Callable[[F], F]:
    """Return a decorator that shows each of `options` in the signature, instead of `**options`, and refuses others.

    The default of an option is shown: that of `defaults`, or None where it may be None, or else `...` for "not given".
    """

    def default_of(name: str, kind: Any) -> object:
        return defaults.get(name, None if type(None) in get_args(kind) else ...)

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        plain = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default_of(name, kind), annotation=kind)
            for name, kind in get_type_hints(options).items()
        ]
        known = {parameter.name for parameter in (*plain, *named)}

        def check(given: dict[str, Any]) -> None:
            for name in given.keys() - known:
                raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}")

        @wraps(function)
        def called(*arguments: Any, **given: Any) -> Any:
            check(given)
            return function(*arguments, **given)

        @wraps(function)
        async def awaited(*arguments: Any, **given: Any) -> Any:
            check(given)
            return await function(*arguments, **given)

        checked: Any = awaited if inspect.iscoroutinefunction(function) else called
        checked.__signature__ = signature.replace(parameters=[*plain, *named])
        return cast(F, checked)

    return shown


def with_parameters_of(
    other: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Return a decorator that shows the parameters of another method, to which the decorated one passes them."""

    def shown(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        method.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return method

    return shown
