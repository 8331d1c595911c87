"""What a handler says of itself by its signature: models of its payload and its result, whether it wants the task."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, get_type_hints

from hub.client.jobs.handlers import Model

log = logging.getLogger("hub.client")


def model_of(function: Callable[..., Any]) -> type[Model] | None:
    """The model that the first parameter is annotated with; None where that is no model, or there is no annotation."""
    positional = _positional(function)
    return _model(function, "payload", positional[0].annotation) if positional else None


def result_of(function: Callable[..., Any]) -> type[Model] | None:
    """The model that is what it returns; None where that is none, or nothing is said of it."""
    try:
        said = inspect.signature(function).return_annotation
    except (TypeError, ValueError):  # of something built in
        return None
    return _model(function, "result", said)


def _model(function: Callable[..., Any], what: str, annotation: Any) -> type[Model] | None:
    if annotation is inspect.Parameter.empty or annotation is None:
        return None
    found = SimpleNamespace(__annotations__={what: annotation})
    plain = inspect.unwrap(function)
    names = getattr(plain, "__globals__", None) or getattr(type(plain).__call__, "__globals__", {})
    try:
        said = get_type_hints(found, globalns=names)[what]
    except Exception as error:  # noqa: BLE001 - an annotation may be anything, and need not be there when it runs
        log.warning("the %s of %r is taken as it is: its annotation is not known (%s)", what, function, error)
        return None
    is_model = isinstance(said, type) and all(
        callable(getattr(said, name, None)) for name in ("model_json_schema", "model_validate")
    )
    return said if is_model else None


def takes_task(function: Callable[..., Any]) -> bool:
    """Whether it is called with payload and task; one of a single parameter is called with the payload alone."""
    found = _positional(function)
    return found is None or len(found) != 1 or found[0].kind is inspect.Parameter.VAR_POSITIONAL


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of something built in
        return None
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind not in by_name]
