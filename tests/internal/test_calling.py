"""Calling the function of a job, plain or coroutine; its errors and its cancellation."""

import asyncio
import json
import threading
from functools import partial

import pytest

from hub.internal.calling import call, place_of, text_of


class Called:
    """An object that is called as a coroutine function is."""

    def __init__(self, said):
        self._said = said

    async def __call__(self, *arguments):
        self._said.append((*arguments, threading.current_thread() is threading.main_thread()))


async def test_a_plain_function_runs_in_a_thread():
    said = []
    await call(lambda *given: said.append((*given, threading.current_thread() is threading.main_thread())), 1, "a")
    assert said == [(1, "a", False)]


async def test_a_coroutine_function_runs_on_the_event_loop():
    said = []

    async def execute(*arguments):
        await asyncio.sleep(0)
        said.append((*arguments, asyncio.get_running_loop()))

    await call(execute, 1, "a")
    await call(partial(execute), 2, "b")
    assert said == [(1, "a", asyncio.get_running_loop()), (2, "b", asyncio.get_running_loop())]


async def test_an_object_with_a_coroutine_call_runs_on_the_event_loop():
    said = []
    await call(Called(said), 1)
    assert said == [(1, True)]


async def test_an_awaitable_returned_by_a_plain_function_is_awaited():
    said = []

    async def rest(given):
        said.append(given)

    await call(lambda given: rest(given), 3)
    assert said == [3]


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyError("k")], ids=repr)
async def test_an_exception_raised_in_a_thread_reaches_the_caller(error):
    def execute():
        raise error

    with pytest.raises(type(error)) as raised:
        await call(execute)
    assert raised.value is error


async def test_a_stop_iteration_is_raised_like_any_other_error():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await call(lambda: next(iter([])))


async def test_a_cancelled_call_does_not_wait_for_its_thread():
    go_on = threading.Event()
    calling = asyncio.ensure_future(call(go_on.wait))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    go_on.set()


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_the_text_of_an_error_is_not_empty_is_bounded_and_can_be_stored():
    assert text_of(ValueError("no such atom")) == "no such atom"
    assert text_of(ValueError()) == "ValueError"
    assert text_of(Mute()) == "<exception str() failed>"
    assert len(text_of(ValueError("x" * 10_000))) == 4000
    assert text_of(ValueError("\ud800")).encode() == b"\\ud800"


def test_the_logged_place_of_an_error_is_the_line_that_raised_it():
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads("{")
    assert "/json/decoder.py:" in place_of(raised.value)
    assert place_of(ValueError()) == "-"
