"""The decorator of commands: it adds the common options, connects to the hub, and prints the answer."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from inspect import Parameter
from typing import Any

import typer

from hub.cli.answers import CommandAnswer
from hub.cli.connection import Address, HubApi, JobsApi, Role, address, plain_logs
from hub.cli.global_options import ALL, realm
from hub.cli.options import AS_JSON, BEARER, SECRET, URL

Result = CommandAnswer | int | None  # an int is an exit code, of a command that prints by itself
Work = Coroutine[Any, Any, CommandAnswer]  # of a command that checks its options before it asks the hub
Decorator = Callable[[Callable[..., Coroutine[Any, Any, Result]]], Callable[..., int]]
# The options that a command gets with its first parameter.
_ADDRESS = {"url": URL, "secret": SECRET}
_ADDED: dict[Any, dict[str, Any]] = {HubApi: _ADDRESS, JobsApi: {**_ADDRESS, "token": BEARER}, Address: _ADDRESS}


class Group(typer.Typer):
    """Commands below one noun, such as `hub queue ls`."""

    def add(self, name: str, role: Role = "look") -> Decorator:
        """Return a decorator that makes a command of this name of a function, as `command` does."""
        return lambda function: self.command(name)(command(role)(function))


def command(role: Role = "look", *, every_realm: bool = False) -> Decorator:
    """Return a decorator that makes a command of a function; its parameters are the options, except the first one.

    - A first parameter of type `HubApi`, `JobsApi` or `Address` adds `--url` and `--secret`, for the jobs API
      `--token`: the function gets the API, connected when its coroutine runs, or the bare address.
    - `-> CommandAnswer` or `-> Work` adds `--json`; a function with a parameter `as_json` gets its value.
    - `role` decides which secret is sent; with `every_realm` the option `--realm '*'` is allowed.
    """

    def decorate(function: Callable[..., Coroutine[Any, Any, Result]]) -> Callable[..., int]:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())
        kind = own.pop(0).annotation if own and own[0].annotation in _ADDED else None
        added = _ADDED.get(kind, {})
        takes_json = any(parameter.name == "as_json" for parameter in own)
        if signature.return_annotation in (CommandAnswer, Work) and not takes_json:
            own.append(Parameter("as_json", Parameter.KEYWORD_ONLY, default=AS_JSON, annotation=bool))
        for name, option in added.items():
            own.append(Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=str | None))

        @functools.wraps(function)
        def run(**given: Any) -> int:
            added_values = [given.pop(name) for name in added]
            as_json = bool(given.get("as_json") if takes_json else given.pop("as_json", False))
            if kind is None:
                return asyncio.run(_finish(function(**given), None, as_json=as_json))
            plain_logs()
            hub = _hub(kind, added_values, role, every_realm=every_realm)
            return asyncio.run(_finish(function(hub, **given), hub, as_json=as_json))

        run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
        return run

    return decorate


def _hub(kind: Any, values: list[Any], role: Role, *, every_realm: bool) -> HubApi | Address:
    if kind is JobsApi:
        return JobsApi.of_command_line(*values)
    url, secret = values
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
