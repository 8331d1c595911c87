"""What slots say of themselves: canonical JSON, classes, the rules that are broken."""

from __future__ import annotations

import hashlib

import orjson
import pytest

from hub.capacity.attributes import class_of, read_attributes, read_keys, read_warm
from hub.capacity.where import parse
from hub.errors import InvalidValue

READ = [
    ({}, "{}"),
    ({"vram": 24, "cpu": 1.5}, '{"cpu":1.5,"vram":24}'),
    ({"vram": 24.0, "zero": -0.0}, '{"vram":24,"zero":0}'),
    ({"tiny": 1e-7, "most": 2.0**53 - 1}, '{"most":9007199254740991,"tiny":1e-07}'),
    ({"b": True, "a": False}, '{"a":false,"b":true}'),
    ({"gpu.model": "A\"é", "_x.Y1": ""}, '{"_x.Y1":"","gpu.model":"A\\"é"}'),
    ({"tags": ["b", "a", "b"], "none": []}, '{"none":[],"tags":["a","b"]}'),
    ({f"a{n:02}": n for n in range(32)}, "{" + ",".join(f'"a{n:02}":{n}' for n in range(32)) + "}"),
    ({"a" * 64: "x" * (4096 - 71)}, f'{{"{"a" * 64}":"{"x" * (4096 - 71)}"}}'),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text"), READ, ids=[row[1][:30] for row in READ])
def test_attributes_are_written_in_one_way(given, text):
    assert read_attributes(given) == text
    assert read_attributes(orjson.loads(text)) == text


OBJECT = "attributes must be an object of at most 32 names"
NAME = (
    "attributes: a name has at most 64 letters, digits and _, dots between parts that begin with no digit and are no "
    "reserved words of CEL; not "
)
VALUE = "attributes: a must be a number, a text, true, false or a list of texts"
NUMBER = "attributes: a must be a number from -9007199254740991 to 9007199254740991"
REFUSED = [
    (None, OBJECT),
    ([], OBJECT),
    ("a", OBJECT),
    ({f"a{n}": n for n in range(33)}, OBJECT),
    ({"": 1}, f"{NAME}''"),
    ({"1a": 1}, f"{NAME}'1a'"),
    ({"a-b": 1}, f"{NAME}'a-b'"),
    ({"a.": 1}, f"{NAME}'a.'"),
    ({"a..b": 1}, f"{NAME}'a..b'"),
    ({"a.1": 1}, f"{NAME}'a.1'"),
    ({"a\n": 1}, f"{NAME}'a\\n'"),
    ({"é": 1}, f"{NAME}'é'"),
    ({"true": 1}, f"{NAME}'true'"),
    ({"a.in": 1}, f"{NAME}'a.in'"),
    ({"package": 1}, f"{NAME}'package'"),
    ({"a" * 65: 1}, f"{NAME}'{'a' * 65}'"),
    ({"a": None}, VALUE),
    ({"a": {}}, VALUE),
    ({"a": [1]}, VALUE),
    ({"a": ["x", None]}, VALUE),
    ({"a": 2**53}, NUMBER),
    ({"a": -1e300}, NUMBER),
    ({"a": 10**400}, NUMBER),
    ({"a": float("nan")}, NUMBER),
    ({"a": float("inf")}, NUMBER),
    ({"a": "\ud800"}, "attributes: a text is not valid Unicode"),
    ({"a": ["fine", "a\n"]}, "attributes: a has a control character, such as NUL or a line feed"),
    ({"a": "x" * 4089}, "attributes must have at most 4096 bytes as JSON; these have 4097"),
]


@pytest.mark.parametrize(("given", "rule"), REFUSED, ids=[repr(row[0])[:30] for row in REFUSED])
def test_other_attributes_are_refused_with_the_rule_that_they_break(given, rule):
    with pytest.raises(InvalidValue) as refused:
        read_attributes(given)
    assert (refused.value.detail, refused.value.facts) == (rule, {"member": "attributes"})


def test_whatever_name_an_attribute_may_have_an_expression_can_name():
    for name in ["a", "_", "A9.b_", "in_", "nullable.x", "a" * 64]:
        assert parse(name).names == set(orjson.loads(read_attributes({name: True})))


def test_slots_with_the_same_attributes_have_one_class():
    text = read_attributes({"vram": 24, "features": ["b", "a"]})
    assert class_of(text) == hashlib.sha1(b'{"features":["a","b"],"vram":24}').hexdigest()[:16]
    assert class_of(read_attributes({"features": ["a", "b"], "vram": 24.0})) == class_of(text)
    assert class_of("{}") == "bf21a9e8fbc5a384"
    assert class_of("") == ""


def test_keys_are_joined_by_blanks_without_repeats():
    assert read_warm([]) == ""
    assert read_warm(["repo-42", "a.b:c/d@e+f_g", "repo-42", "x" * 64]) == f"repo-42 a.b:c/d@e+f_g {'x' * 64}"
    assert read_keys(["b", "a"], "prefer", 8) == "b a"


@pytest.mark.parametrize("given", [None, "a", {"a": 1}, ["a"] * 17], ids=repr)
def test_what_is_no_list_of_keys_is_refused(given):
    with pytest.raises(InvalidValue) as refused:
        read_warm(given)
    assert refused.value.detail == "warm must be a list of at most 16 keys"
    assert refused.value.facts == {"member": "warm"}


@pytest.mark.parametrize("key", ["", "a b", "a\n", "a,b", "é", "x" * 65, 1, None], ids=repr)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InvalidValue) as refused:
        read_keys(["a", key], "prefer", 8)
    rule = "a key has 1 to 64 characters: letters, digits and any of _ . : / @ + -"
    assert refused.value.detail == f"prefer: {rule}; not {key!r:.80}"
    assert refused.value.facts == {"member": "prefer"}
