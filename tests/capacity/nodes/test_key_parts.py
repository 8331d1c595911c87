"""Ids as parts of keys over all of Unicode: one rule, in Python and in scripts."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from hub.capacity.models import listed_id
from hub.store.keys import key_part
from hub.store.library import modules

WIDE = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=230)
ANY_BYTES = st.lists(
    st.sampled_from([b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xe2\x80", b"\xf0\x9f\x98", b"a", b"\xff"])
    | st.binary(max_size=4)
    | st.characters(exclude_categories=["Cs"]).map(str.encode),
    max_size=60,
).map(b"".join)
Ask = Callable[[bytes], str]


def text(found: bytes) -> str:
    return found.decode("utf-8", "surrogateescape")


@pytest.fixture
def in_lua(redis: Redis) -> Ask:
    """Return what a script makes of an id."""
    script = modules("ids") + "return ids.key_part(ARGV[1])"
    plain = Redis(host="127.0.0.1", port=redis.connection_pool.connection_kwargs["port"])
    run = plain.register_script(script)
    return lambda raw: text(run(args=[raw]))


@pytest.fixture
def item_in_lua(redis: Redis) -> Ask:
    """The slot id that a script finds in a list item."""
    script = modules("ids", "items") + "return (items.read(ARGV[1])) or items.nameless(ARGV[1])"
    plain = Redis(host="127.0.0.1", port=redis.connection_pool.connection_kwargs["port"])
    run = plain.register_script(script)
    return lambda raw: text(run(args=[raw]))


@WIDE
@given(raw=ANY_TEXT)
def test_lua_and_python_make_the_same_key_part_of_any_text(in_lua: Ask, raw: str) -> None:
    assert in_lua(raw.encode()) == key_part(raw)


@pytest.mark.slow
@WIDE
@given(raw=ANY_BYTES)
def test_lua_and_python_make_the_same_key_part_of_any_bytes(in_lua: Ask, raw: bytes) -> None:
    assert in_lua(raw) == key_part(text(raw))


@pytest.mark.slow
def test_lua_and_python_treat_every_single_character_alike(redis: Redis) -> None:
    script = modules("ids") + "local found = {} for i = 1, #ARGV do found[i] = ids.key_part(ARGV[i]) end return found"
    run = redis.register_script(script)
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    parts = [every[start : start + 200] for start in range(0, len(every), 200)]  # as many as a part may have
    for start in range(0, len(parts), 100):
        batch = parts[start : start + 100]
        assert run(args=batch) == [key_part(part) for part in batch]


@pytest.mark.slow
def test_letters_and_decimal_digits_of_unicode_14_stay_in_a_key_part() -> None:
    """A newer Unicode has more of them; what has been stored must be found all the same."""
    kept = {chr(code) for code in range(0x80, 0x110000) if key_part(chr(code)) == chr(code)}
    said = {chr(code) for code in range(0x80, 0x110000) if unicodedata.category(chr(code))[0] == "L"}
    said |= {chr(code) for code in range(0x80, 0x110000) if unicodedata.category(chr(code)) == "Nd"}
    assert kept <= said
    if unicodedata.unidata_version.startswith("14."):
        assert kept == said


MEMBERS = st.dictionaries(
    st.sampled_from(["browserId", "slotId", "nodeId", "labels"]),
    ANY_TEXT.map(lambda text: text[:40])
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
    | st.fixed_dictionaries({"browserId": st.integers(0, 9)}),
)


@pytest.mark.slow
@WIDE
@given(document=MEMBERS, escaped=st.booleans(), blanks=st.booleans())
def test_lua_and_python_find_the_same_slot_id_in_an_item(
    item_in_lua: Ask, document: dict[str, object], escaped: bool, blanks: bool
) -> None:
    item = json.dumps(document, ensure_ascii=escaped, separators=None if blanks else (",", ":"))
    assert item_in_lua(item.encode()) == listed_id(item)


@pytest.mark.slow
@WIDE
@given(raw=ANY_BYTES)
def test_lua_and_python_find_the_same_slot_id_in_invalid_json(item_in_lua: Ask, raw: bytes) -> None:
    item = b'{"browserId":"' + raw.replace(b"\\", b"") + b'"'
    assert item_in_lua(item) == listed_id(text(item))
