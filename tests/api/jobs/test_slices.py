"""Large submits, read a slice at a time: the same answers as when they are read at once, and others get their turns."""

from __future__ import annotations

import asyncio
import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.api.jobs import bodies, slices
from hub.api.shapes.job_bodies import SubmitBody
from hub.errors import Malformed, TooLarge

MOST = 1 << 20
Limits = type("Limits", (), {"task_payload_max_bytes": MOST})

TEXTS = st.text(st.sampled_from('a"\\/ ,:{}[]\n\u0000é\U0001f600'), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=6), max_leaves=40
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "payloads": st.lists(OBJECTS | VALUES, max_size=6), "payload": OBJECTS | VALUES, "priority": SCALARS,
        "x y": VALUES, "maxAttempts": st.integers(0, 5),
    },
)  # fmt: skip
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


async def outcome(read, text):
    try:
        said, body = await read(text)
        taken = bodies.payloads(said, body, Limits)
    except Malformed as error:
        return "malformed", sorted({fault["type"] for fault in error.facts["errors"]})
    except TooLarge:
        return "too large", None
    return (said.priority, said.max_attempts, said.payloads is None), taken


def no_check(document):
    """Accept every member, as for a caller of the seed's wire."""


async def at_once(text):
    return bodies._whole(text, SubmitBody, no_check)


async def in_slices(text):
    return await bodies._sliced(text, SubmitBody, MOST, no_check)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(document=BODIES, blanks=st.lists(BLANKS, min_size=1, max_size=5), cut=st.integers(0, 400), ascii=st.booleans())
def test_slices_say_what_the_whole_says(document, blanks, cut, ascii):
    text = spread(json.dumps(document, ensure_ascii=ascii), blanks)
    broken = text[: cut % len(text)] + text[cut % len(text) + 1 :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE", 32)
        patch.setattr(slices, "SMALL", 8)
        assert asyncio.run(outcome(in_slices, text)) == asyncio.run(outcome(at_once, text))
        kinds = [asyncio.run(outcome(read, broken)) for read in (in_slices, at_once)]
        # What is wrong in two ways may be refused for either.
        assert kinds[0] == kinds[1] or {kind[0] for kind in kinds} == {"malformed"}, broken


LARGE = 900_000
SHAPES = {
    "blanks": '{"a": [' + ", ".join(["1"] * (LARGE // 3)) + "]}",
    "brackets": '{"a":[' + ",".join(["{}"] * (LARGE // 3)) + "]}",
    "strings": '{"a":[' + ",".join(['"x\\"y"'] * (LARGE // 7)) + "]}",
    "one string": '{"a":"' + "x" * LARGE + '"}',
    "chains": '{"a":[' + ",".join(["[" * 120 + "]" * 120] * (LARGE // 241)) + "]}",
    "members": "{" + ",".join(f'"k{n}":{n}' for n in range(60_000)) + "}",
    "nested": '{"a":[' + ",".join(['{"b":{"c":[1,{"d":"e, f},"}]}, "g": 1.5}'] * (LARGE // 42)) + "]}",
    "a list in lists": '{"a":' + "[1," * 100 + "[" + ",".join(["1"] * (LARGE // 2)) + "]" + "]" * 100 + "}",
}


@pytest.mark.parametrize("item", SHAPES.values(), ids=SHAPES)
async def test_nothing_large_is_read_at_once_and_others_get_turns_in_between(monkeypatch, item):
    read, turns = [], 0
    loads = orjson.loads

    def noted(text):
        read.append(len(text) if text[:1] != '"' else 0)
        return loads(text)

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    noting = type("Noting", (), {"loads": noted, "JSONDecodeError": orjson.JSONDecodeError})
    monkeypatch.setattr(slices, "orjson", noting)
    waiting = asyncio.create_task(others())
    text = f'{{"payloads":[{item},{item},{item}]}}'.encode()
    said, body = await in_slices(text)
    waiting.cancel()
    assert bodies.payloads(said, body, Limits) == [slices.compact(item)] * 3
    assert max(read) <= slices.SLICE + 5
    assert turns >= (2 if item == SHAPES["one string"] else len(text) // slices.SLICE - 3)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"payloads":[{"a":"' + b"x" * (MOST + 1) + b'"}]}', "too large"),
        (b'{"payloads":[{"a":[' + b"1," * MOST + b"1]}]}", "too large"),
        (b'{"x":[' + b"1," * MOST + b"1]}", "too large"),
        (b'{"payloads":[' + b"{}," * 1001 + b"{}]}", "malformed"),
        (b'{"payloads":[{"a":' + b"[" * 128 + b"]" * 128 + b"}]}", "malformed"),
        (b'{"payloads":[{"a":' + b"[" * 100_000, "malformed"),
        (b"{" + b'"a":1,' * 20_000 + b'"b":2}', None),
        (b"{" + b",".join(b'"%d":1' % n for n in range(200)) + b"}", "malformed"),
        (b"[" * 100_000, "malformed"), (b'"' + b"x" * 100_000, "malformed"),
        (b'{"a":"\xff"}' + b" " * 70_000, "malformed"), (b"[" + b"1," * 50_000 + b"1]", "malformed"),
        (b'{"payloads":[{"a":' + b"9" * 5_000 + b"}]}", "malformed"), (b'{"payload":{"a":1e999}}', "malformed"),
        (b'{"payload":{"a":"\\ud800"}}', "malformed"), (b'{"payload":{"\\ud800":1}}', "malformed"),
    ],
    ids=range(16),
)  # fmt: skip
async def test_what_is_too_much_or_no_json_is_refused(text, kind):
    found, _ = await outcome(in_slices, text)
    assert found == kind or (kind is None and found not in ("malformed", "too large"))
