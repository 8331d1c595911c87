"""The decorator of commands: it adds the common options, connects to the hub, and prints the answer."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from inspect import Parameter
from typing import Any

from hub.cli.answers import CommandAnswer
from hub.cli.connection import Address, HubApi, Role, address, plain_logs
from hub.cli.global_options import ALL, realm
from hub.cli.job_inputs import Token
from hub.cli.jobs_api import JobsApi
from hub.cli.options import AsJson, Secret, Url

Result = CommandAnswer | int | None  # an int is an exit code, of a command that prints by itself
Work = Coroutine[Any, Any, CommandAnswer]  # of a command that checks its options before it asks the hub
_WAYS: dict[Any, tuple[str, ...]] = {
    HubApi: ("url", "secret"),
    JobsApi: ("url", "secret", "token"),
    Address: ("url", "secret"),
}
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "as_json": (AsJson, False),
    "url": (Url, None),
    "secret": (Secret, None),
    "token": (Token, None),
}


def command(
    role: Role = "look", *, every_realm: bool = False
) -> Callable[[Callable[..., Coroutine[Any, Any, Result]]], Callable[..., int]]:
    """Return a decorator that makes a command of a function; its parameters are the options, except the first one.

    - A first parameter of type `HubApi`, `JobsApi` or `Address` adds `--url` and `--secret`, for the jobs API
      `--token`: the function gets the API, connected when its coroutine runs, or the bare address.
    - `-> CommandAnswer` or `-> Work` adds `--json`; a function with a parameter `as_json` gets its value.
    - `role` decides which secret is sent; with `every_realm` the option `--realm '*'` is allowed.
    """

    def decorate(function: Callable[..., Coroutine[Any, Any, Result]]) -> Callable[..., int]:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())
        kind = own.pop(0).annotation if own and own[0].annotation in _WAYS else None
        takes_json = any(parameter.name == "as_json" for parameter in own)
        prints_json = signature.return_annotation in (CommandAnswer, Work) and not takes_json
        added = (*(("as_json",) if prints_json else ()), *_WAYS.get(kind, ()))
        own += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in ((name, _OPTIONS[name]) for name in added)
        ]

        @functools.wraps(function)
        def run(**given: Any) -> int:
            way = [given.pop(name) for name in _WAYS.get(kind, ())]
            as_json = bool(given.get("as_json") if takes_json else given.pop("as_json", False))
            if kind is None:
                return asyncio.run(_finish(function(**given), None, as_json=as_json))
            plain_logs()
            hub = _hub(kind, way, role, every_realm=every_realm)
            return asyncio.run(_finish(function(hub, **given), hub, as_json=as_json))

        run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
        return run

    return decorate


def _hub(kind: Any, way: list[Any], role: Role, *, every_realm: bool) -> HubApi | Address:
    if kind is JobsApi:
        return JobsApi.of_command_line(*way)
    url, secret = way
    at = address(url, secret, role, of_all=every_realm and realm() == ALL)
    return HubApi(at) if kind is HubApi else at


async def _finish(work: Coroutine[Any, Any, Result], hub: HubApi | Address | None, *, as_json: bool) -> int:
    try:
        async with hub if isinstance(hub, HubApi) else nullcontext():
            result = await work
    finally:
        work.close()  # without a hub the coroutine was never started
    if isinstance(result, CommandAnswer):
        return result.put(as_json=as_json)
    return result or 0
