"""The language of `where`: what is refused and where, one digest for one meaning, what fails, and hints."""

from __future__ import annotations

import orjson
import pytest

from hub.capacity.attributes import PoolClass
from hub.capacity.where import failing, hint, parse, suits
from hub.errors import BadWhere
from hub.store.library import modules

OPS = "==, !=, <, <=, >, >="
START = "an attribute, a number, a text, true, false, ! or ("
VALUE = "a number, a text, true or false"
ORDERED = "a number or a text"
GO_ON = "&&, || or the end"
BARE = f"{OPS}, in, {GO_ON}"
NUMBER = "a number from -9007199254740991 to 9007199254740991"
NAME = "a name of at most 64 characters without reserved words of CEL"
REFUSED = [
    ("", 1, START),
    ("  ", 3, START),
    ("&& a", 1, START),
    ("a &&", 5, START),
    ("a || )", 6, START),
    ("a && & b", 6, START),
    ("()", 2, START),
    ("vram >= ", 9, ORDERED),
    ("vram >= 40 &&& x", 14, START),
    ("vram = 40", 6, BARE),
    ("vram >> 3", 7, ORDERED),
    ("vram < true", 8, ORDERED),
    ("true < vram", 1, ORDERED),
    ("vram == cpu", 9, VALUE),
    ("vram == null", 9, VALUE),
    ("vram == -cpu", 9, VALUE),
    ("vram == (1)", 9, VALUE),
    ("vram == .5", 9, VALUE),
    ("vram == 1.", 10, GO_ON),
    ("vram == 0x1F", 10, GO_ON),
    ("vram == 1u", 10, GO_ON),
    ("vram == 40 GB", 12, GO_ON),
    ("vram == 1 == true", 11, GO_ON),
    ("1 < vram < 3", 10, GO_ON),
    ("(vram) == 1", 8, GO_ON),
    ("1 + 2", 3, f"{OPS} or in"),
    ("40", 3, f"{OPS} or in"),
    ("true", 5, f"{OPS} or in"),
    ("1 == 1", 6, "an attribute"),
    ("40 <= ", 7, "an attribute"),
    ("foo(vram)", 4, BARE),
    ("spot ? a : b", 6, BARE),
    ("vram .x", 6, BARE),
    ("vram.1", 5, BARE),
    ("vrám", 3, BARE),
    ("vram\u00a0> 1", 5, BARE),
    ("a b", 3, BARE),
    ("(a b)", 4, f"{OPS}, in, &&, || or )"),
    ("(a", 3, f"{OPS}, in, &&, || or )"),
    ("(a > 1", 7, "&&, || or )"),
    ("a)", 2, BARE),
    ("!vram >= 40", 7, f"( before the attribute, {GO_ON}"),
    ("!!vram in [1]", 8, f"( before the attribute, {GO_ON}"),
    ("!(vram) >= 40", 9, GO_ON),
    ("!spot zone", 7, GO_ON),
    ("!40 <= vram", 2, "an attribute, ! or ("),
    ("!", 2, "an attribute, ! or ("),
    ("zone in eu", 9, "["),
    ("zone in []", 10, VALUE),
    ("zone in [1,]", 12, VALUE),
    ("zone in [1 2]", 12, ", or ]"),
    ("zone in [1", 11, ", or ]"),
    ("zone in [a]", 10, VALUE),
    ("1 in features", 1, "a text before in"),
    ("spot && true in features", 9, "a text before in"),
    ("'a' in ['a']", 8, "an attribute"),
    ("'a' = b", 5, f"{OPS} or in"),
    ('zone == "eu', 12, '" that ends the text'),
    ("zone == 'eu\"", 13, "' that ends the text"),
    ("zone == 'e\nu'", 11, "' that ends the text"),
    ("zone == 'e\\u0041'", 11, "\\\" \\' \\\\ \\n or \\t"),
    ("zone == '\ud800'", 10, "' that ends the text"),
    ('zone == """eu"""', 11, GO_ON),
    ("zone == r'eu'", 9, VALUE),
    ("'''", 3, f"{OPS} or in"),
    ("vram == 9007199254740992", 9, NUMBER),
    ("-1e300 < vram", 1, NUMBER),
    ("vram in [1, 1e999]", 13, NUMBER),
    ("package == 1", 1, NAME),
    ("spot && a.in == 1", 9, NAME),
    ("true.x", 1, NAME),
    ("null", 1, NAME),
    ("a" * 65, 1, NAME),
    ("a" * 1025, 1025, "the end: it has at most 1024 characters"),
    ("(" * 17 + "a" + ")" * 17, 17, "at most 16 brackets and ! within each other"),
    ("!" * 17 + "a", 17, "at most 16 brackets and ! within each other"),
    (" && ".join(["a"] * 33), 32 * 5 + 1, "at most 32 comparisons"),
    (f"a in [{','.join(['1'] * 65)}]", 6 + 64 * 2 + 1, "at most 64 members"),
]


@pytest.mark.parametrize(("text", "position", "expected"), REFUSED, ids=[row[0][:20] for row in REFUSED])
def test_what_is_not_in_the_language_is_refused_at_its_first_wrong_character(text, position, expected):
    with pytest.raises(BadWhere) as refused:
        parse(text)
    assert refused.value.facts == {"position": position, "expected": expected}
    assert refused.value.detail == f"where: expected {expected}, at position {position}"


def test_the_largest_expressions_are_read():
    for text in [
        "a" * 64,
        "(" * 16 + "a" + ")" * 16,
        "!" * 16 + "a",
        " || ".join(f"a{i} == {i}" for i in range(32)),
        f"a in [{','.join(map(str, range(64)))}]",
        f"a == '{'x' * 1017}'",
    ]:
        assert parse(text).text == text


# What is written, and its tree as JSON.
TREES = [
    ("spot", '["is","spot"]'),
    ("!spot", '["!is","spot"]'),
    ("!!(spot)", '["is","spot"]'),
    ("40.0 <= vram", '[">=","vram",40]'),
    ("vram<-2.50", '["<","vram",-2.5]'),
    ("vram == -0.0", '["==","vram",0]'),
    ("vram == 007", '["==","vram",7]'),
    ("!(vram > 4e1)", '["<=","vram",40]'),
    ("!(vram == 1)", '["!=","vram",1]'),
    ("gpu.model != 'A\"\\'\\\\\\n'", '["!=","gpu.model","A\\"\'\\\\\\n"]'),
    ("zone == 'é'", '["==","zone","é"]'),
    ('"a" in tags', '["has","tags","a"]'),
    ("!('a' in tags)", '["!has","tags","a"]'),
    ("a in [true, 1, '1', 1.0]", '["in","a",["1",1,true]]'),
    ("!(a in [2, 1])", '["!in","a",[1,2]]'),
    ("a in [1, 1.0]", '["==","a",1]'),
    ("b && a && b", '["&",["is","a"],["is","b"]]'),
    ("(b && (a && c)) && b", '["&",["is","a"],["is","b"],["is","c"]]'),
    ("a || b && c", '["|",["&",["is","b"],["is","c"]],["is","a"]]'),
    ("!(a && !b)", '["|",["!is","a"],["is","b"]]'),
    ("!(a || b) && c", '["&",["!is","a"],["!is","b"],["is","c"]]'),
    ("(a || b) && (b || a)", '["|",["is","a"],["is","b"]]'),
    ("a && a", '["is","a"]'),
]


@pytest.mark.parametrize(("text", "tree"), TREES, ids=[row[0] for row in TREES])
def test_an_expression_has_a_canonical_tree(text, tree):
    assert parse(text).tree == tree


def test_the_digest_of_a_want_is_that_of_its_tree_and_stays():
    one = parse('vram >= 40 && zone == "eu" && "nvlink" in features && !spot')
    assert one.want == "28168f1b39531218"
    assert one.want == parse("!spot && ('nvlink' in features) && 'eu' == zone\n&& 40.0 <= vram").want
    assert one.names == {"vram", "zone", "features", "spot"}
    different = [
        "a == 1",
        "a == true",
        "a == '1'",
        "a in [1, true]",
        "a",
        "!a",
        "a < 1",
        "b == 1",
        "'1' in a",
        "a != 1",
    ]
    assert len({parse(text).want for text in different}) == len(different)


GPUS = [
    PoolClass("gpu:a", {"vram": 24, "zone": "eu", "spot": True, "features": ["nvlink"]}, 8, 1),
    PoolClass("gpu:b", {"vram": 40, "zone": "us", "features": []}, 4, 0),
]
# An expression, the clause that fails for the first class, and the hint.
WHY = [
    ("vram >= 24", "", ""),
    ("vram >= 40", "vram >= 40", ""),
    ("vrm >= 3 || spot", "", ""),
    ("vram>=80 && zone == 'eu'", "vram>=80", "vram>=80: the 12 slots of gpu with attributes have 24 or 40"),
    ("spot && vrm >= 80", "vrm >= 80", "no slot of gpu has `vrm`; did you mean vram?"),
    ("colour == 'red'", "colour == 'red'", "no slot of gpu has `colour`; they have features, spot, vram and zone"),
    ("zone == 'asia'", "zone == 'asia'", 'zone == \'asia\': the 12 slots of gpu with attributes have "eu" or "us"'),
    ("vram >= '80'", "vram >= '80'", "vram >= '80': the 12 slots of gpu with attributes have 24 or 40"),
    ("!spot", "!spot", "!spot: the 12 slots of gpu with attributes have true or no spot"),
    ("'ib' in features", "'ib' in features",
     '\'ib\' in features: the 12 slots of gpu with attributes have [] or ["nvlink"]'),
    ("((spot && (vram > 40)))", "vram > 40", "vram > 40: the 12 slots of gpu with attributes have 24 or 40"),
    ("vram > 80 || (vram > 90 && spot)", "vram > 80 || (vram > 90 && spot)",
     "vram > 80 || (vram > 90 && spot): the 12 slots of gpu with attributes have spot true or no spot; vram 24 or 40"),
    ("(vram > 80) || (zone in [1, 2])", "(vram > 80) || (zone in [1, 2])",
     '(vram > 80) || (zone in [1, 2]): the 12 slots of gpu with attributes have vram 24 or 40; zone "eu" or "us"'),
    ("( vram > 80 || zone == 'x' )", "vram > 80 || zone == 'x'",
     'vram > 80 || zone == \'x\': the 12 slots of gpu with attributes have vram 24 or 40; zone "eu" or "us"'),
    ("vram >= 40 && zone == 'eu'", "vram >= 40", "no slot of gpu has all of vram >= 40 (4), zone == 'eu' (8)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fails", "why"), WHY, ids=[row[0] for row in WHY])
def test_the_clause_that_fails_is_named_and_what_slots_have_instead(text, fails, why):
    where = parse(text)
    assert failing(where, GPUS[0].attributes) == fails
    assert hint(where, "gpu", GPUS) == why


def test_a_hint_stays_short():
    many = [PoolClass("gpu", {"n": n, "text": "x" * 100}, 1, 0) for n in range(20)]
    assert hint(parse("n > 99"), "gpu", many) == (
        "n > 99: the 20 slots of gpu with attributes have 0, 1, 2, 3, 4, 5, 6 or 13 others"
    )
    assert (
        hint(parse("text == 'y'"), "gpu", many[:1])
        == f"text == 'y': the slot of gpu with attributes has \"{'x' * 59}..."
    )
    assert hint(parse("n > 99"), "gpu", []) == "no slot of gpu has attributes"
    assert hint(parse("n > 99"), "gpu", [PoolClass("gpu", {}, 3, 3)]) == "no slot of gpu has attributes"


KEYS = """
local keys = {}
function keys.want(want) return 'want:' .. want end
function keys.slot_class(class) return 'class:' .. class end
"""


@pytest.fixture
def in_redis(redis):
    """The values of Lua expressions, as texts, after the text of the module."""

    def run(expression: str, text: str = modules("numbers", "wants")) -> list[str]:
        said = (
            f"local said = {{{expression}}}\nfor i, each in ipairs(said) do said[i] = tostring(each) end\nreturn said"
        )
        return redis.eval(KEYS + text + said, 0)

    return run


def test_a_class_suits_a_want_that_is_stored_or_learned(redis, in_redis):
    redis.hset("want:w1", "tree", parse("vram >= 40").tree)
    redis.hset("class:c1", "attributes", '{"vram":40}')
    redis.hset("class:c2", "attributes", '{"vram":24}')
    redis.hset("class:c3", "attributes", "{}")
    assert in_redis("wants.suits('w1', 'c1'), wants.suits('w1', 'c2'), wants.suits('w1', 'c3')") == [
        "true", "false", "false",
    ]  # fmt: skip
    learned = "wants.learn('w2', '[\"<\",\"vram\",40]') and wants.suits('w2', 'c1'), wants.suits('w2', 'c2')"
    assert in_redis(learned) == ["false", "true"]
    assert in_redis("wants.suits('w1', ''), wants.suits('w1', false), wants.suits('w9', 'c1')") == ["false"] * 3


def test_a_verdict_is_remembered_and_what_is_lost_is_no_verdict(redis, in_redis):
    redis.hset("want:w", "tree", '["is","spot"]')
    assert in_redis(
        "wants.suits('w', 'c'), redis.call('HSET', 'class:c', 'attributes', '{\"spot\":true}'), wants.suits('w', 'c'),"
        "redis.call('DEL', 'class:c', 'want:w'), wants.suits('w', 'c')"
    ) == ["false", "1", "true", "2", "true"]


@pytest.mark.parametrize("limit", ["200000", "16000"])
def test_memories_of_wants_are_bounded_and_keep_what_the_call_learned(redis, in_redis, limit):
    redis.hset("class:c", "attributes", '{"n":2}')
    text = (
        modules("numbers", "wants").replace(limit, "5").replace("1000", "3")
        + """
    local suiting = {}
    for i = 1, 40 do
      wants.learn('w' .. i, '["==","n",' .. i % 8 .. ']')
      if i % 2 == 0 and wants.suits('w' .. i, 'c') then suiting[#suiting + 1] = i end
    end
    """
    )
    assert in_redis("table.concat(suiting, ' '), wants.suits('w40', 'c')", text) == ["2 10 18 26 34", "false"]
    assert in_redis("wants.suits('w34', 'c'), wants.suits('w26', 'c')", text) == ["true", "false"]


def test_what_a_call_learned_outlasts_what_it_learns_next(redis, in_redis):
    redis.hset("class:c", "attributes", '{"n":2}')
    text = (
        modules("numbers", "wants").replace("1000", "3")
        + """
    for name in string.gmatch('abcdefag', '%a') do wants.learn(name, '[">","n",1]') end
    """
    )
    known = "wants.suits('a', 'c'), wants.suits('d', 'c'), wants.suits('g', 'c'), wants.suits('b', 'c')"
    assert in_redis(known, text) == ["true", "true", "true", "false"]


def test_the_judge_in_redis_tells_texts_apart_by_code_points(redis, in_redis):
    script = redis.register_script(
        modules("numbers", "wants") + "return tostring(wants.judge(cjson.decode(ARGV[1]), cjson.decode(ARGV[2])))"
    )
    for text, given in [("z < '\uff5e'", {"z": "z"}), ("z < 'é'", {"z": "z"}), ("z > '\uff5e'", {"z": "\U0001f600"}),
                        ("z > 'a'", {"z": "a\0"}), ("z > 'B'", {"z": "a"}), ("z < 'ab'", {"z": "a"})]:  # fmt: skip
        where = parse(text)
        assert script(args=[where.tree, orjson.dumps(given).decode()]) == "true"
        assert suits(orjson.loads(where.tree), given) is True
