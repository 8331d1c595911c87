"""Payloads of a submit are kept as they were sent, and others are served while many are read."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from hub.api.handling.large_bodies import LIGHT
from hub.api.jobs import bodies
from hub.api.shapes.job_bodies import SubmitBody
from hub.errors import Malformed, TooLarge

MOST = 1 << 20
Limits = type("Limits", (), {"task_payload_max_bytes": MOST})

TEXTS = st.text(st.sampled_from('a"\\/ ,:{}[]\n\u0000é\U0001f600'), max_size=12)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=6), max_leaves=40
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)
BLANKS = st.sampled_from(["", " ", "\n\t", "  \r\n "])


def spread(text: str, blanks: list[str]) -> bytes:
    """JSON with blanks between its parts, where there may be some."""
    parts, inside, found, n = [], False, list(text), 0
    while n < len(found):
        sign = found[n]
        if inside and sign == "\\":
            parts.append(sign + found[n + 1])
            n += 2
            continue
        if sign == '"':
            inside = not inside
        if not inside and sign in "{}[],:":
            gap = blanks[n % len(blanks)]
            sign = f"{gap}{sign}{gap}"
        parts.append(sign)
        n += 1
    return "".join(parts).encode()


async def taken(text: bytes) -> list[str]:
    said, body = bodies._whole(Request({"type": "http"}), text, SubmitBody)
    return await bodies.payloads(said, body, Limits)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    payloads=st.lists(OBJECTS, min_size=1, max_size=6),
    others=st.dictionaries(TEXTS, VALUES, max_size=3),
    blanks=st.lists(BLANKS, min_size=1, max_size=5),
    ascii=st.booleans(),
)
def test_each_payload_is_kept_as_it_was_sent_but_for_blanks(payloads, others, blanks, ascii):
    said = [json.dumps(payload, ensure_ascii=ascii, separators=(",", ":")) for payload in payloads]
    before = "".join(f"{json.dumps(name, ensure_ascii=ascii)}:{json.dumps(others[name])}," for name in others)
    text = spread(f'{{{before}"payloads":[{",".join(said)}],"x y":[1,{{}}]}}', blanks)
    assert asyncio.run(taken(text)) == said
    assert asyncio.run(taken(spread(f'{{"payload":{said[0]}}}', blanks))) == said[:1]


async def test_numbers_and_the_order_of_members_stay_as_they_were_sent():
    said = '{"b":1.0,"a":1e2,"a":12345678901234567890123,"c":0.10}'
    assert await taken(f'{{"payloads":[{said}]}}'.encode()) == [said]


async def test_the_last_of_two_members_with_the_same_name_counts():
    assert await taken(b'{"payloads":[{"a":1},{}],"payloads":[{"b":2}]}') == ['{"b":2}']
    assert await taken(b'{"payload":{"a":1},"payload":{"b":2}}') == ['{"b":2}']


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"payloads":[{"a":"' + b"x" * (MOST + 1) + b'"}]}', TooLarge),
        (b'{"payloads":[{"a":[' + b"1," * MOST + b"1]}]}", TooLarge),
        (b'{"payloads":[' + b"{}," * 1001 + b"{}]}", Malformed),
        (b'{"payloads":[{"a":' + b"[" * 128 + b"]" * 128 + b"}]}", Malformed),
        (b'{"payloads":[{"a":' + b"[" * 100_000, Malformed), (b"[" * 100_000, Malformed),
        (b'"' + b"x" * 100_000, Malformed), (b'{"a":"\xff"}' + b" " * 70_000, Malformed),
        (b"[" + b"1," * 50_000 + b"1]", Malformed), (b'{"payloads":[{"a":' + b"9" * 5_000 + b"}]}", Malformed),
        (b'{"payload":{"a":1e999}}', Malformed), (b'{"payload":{"a":"\\ud800"}}', Malformed),
        (b'{"payload":{"\\ud800":1}}', Malformed), (b'{"payloads":[{}],"payload":{}}', Malformed),
    ],
    ids=range(14),
)  # fmt: skip
async def test_a_payload_that_is_too_large_or_no_json_is_refused(text, kind):
    with pytest.raises(kind):
        await taken(text)


async def test_other_requests_are_served_while_many_payloads_are_parsed():
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    payload = '{"a":"' + "x" * 1000 + '"}'
    text = f'{{"payloads":[{",".join([payload] * 1000)}]}}'.encode()
    serving = asyncio.create_task(others())
    assert await taken(text) == [payload] * 1000
    serving.cancel()
    assert turns >= len(text) // LIGHT - 1
    assert gc.isenabled()
