"""Random expressions, judged here and in Redis as Google's CEL judges them: 2,000, or `HUB_WHERE_CASES`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import orjson
import pytest
from cel_expr_python import cel

from hub.capacity.attributes import PoolClass, read_attributes
from hub.capacity.where import failing, hint, parse, suits
from hub.errors import BadWhere
from hub.store.library import modules

CASES = int(os.environ.get("HUB_WHERE_CASES", "2000"))
SEED = 20261128
NUMBERS = [0, 1, 1.0, 2, 2.5, -3, -0.0, 24, 40, 80, 0.1, 1e-7, 1e3, -1e15, 2**53 - 1, 1 - 2**53]
# Among them some that stand in another order by UTF-16, by the alphabet or without case.
TEXTS = [
    "",
    "a",
    "A",
    "b",
    "ab",
    "eu",
    "EU",
    "é",
    "e",
    "z",
    "\uff5e",
    "\U0001f600",
    '"',
    "'",
    "\\",
    "a\nb",
    "a\tb",
    "1",
]
VALUES = [text for text in TEXTS if text.isprintable()]  # what an attribute may be
NAMES = {
    "vram": "number", "cpu": "number", "zone": "text", "gpu.model": "text", "gpu": "text", "spot": "bool",
    "_x1": "bool", "features": "list", "Tags.all": "list",
}  # fmt: skip
OPS = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
ENV = cel.NewEnv(variables=dict.fromkeys(NAMES, cel.Type.DYN))
PIECES = [
    "&&",
    "||",
    "!",
    "(",
    ")",
    "in",
    "==",
    "<",
    ",",
    "[",
    "]",
    "true",
    "vram",
    "zone",
    "spot",
    "1",
    "-",
    "'a'",
    "'",
]


def value(random: Random, kind: str, texts: Sequence[str] = TEXTS) -> Any:
    if kind == "list":
        return random.sample(texts, random.randint(0, 3))
    return random.choice({"number": NUMBERS, "text": texts, "bool": [True, False]}[kind])


def attributes(random: Random) -> dict[str, Any]:
    """Attributes of which a quarter is missing and a sixth of another type than expressions expect."""
    kinds = {name: random.choice(list(NAMES.values())) if random.random() < 1 / 6 else NAMES[name] for name in NAMES}
    return {name: value(random, kind, VALUES) for name, kind in kinds.items() if random.random() < 3 / 4}


def expression(random: Random, depth: int) -> tuple[Any, ...]:
    """A random expression as a tree: ('&&' | '||', part, ...), ('!', part), (op, name, value), (name,)."""
    if depth and random.random() < 0.8:
        if random.random() < 0.25:
            return "!", expression(random, depth - 1)
        return random.choice(["&&", "||"]), *(expression(random, depth - 1) for _ in range(random.randint(2, 3)))
    name = random.choice(list(NAMES))
    kind = random.choice(["number", "text", "bool"]) if random.random() < 0.1 else NAMES[name]
    if kind == "list" or random.random() < 0.05:
        return "has", name, value(random, "text")
    if kind == "bool" and random.random() < 0.5:
        return (name,)
    if random.random() < 0.25:
        kinds = [kind, kind, random.choice(["number", "text", "bool"])]
        return "in", name, [value(random, random.choice(kinds)) for _ in range(random.randint(1, 4))]
    return random.choice(list(OPS)[: 2 if kind == "bool" else 6]), name, value(random, kind)


def literal(random: Random, given: Any) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, str):
        quote = random.choice("\"'")
        text = given.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", random.choice(["\\t", "\t"]))
        return quote + text.replace(quote, f"\\{quote}") + quote
    if given == int(given):
        return random.choice([f"{int(given)}", f"{int(given)}.0", f"{given:.17e}"])
    return random.choice([repr(given), f"{given:.17e}"])


def spelled(random: Random, tree: tuple[Any, ...]) -> str:
    """One of many spellings of an expression: another order, other brackets, sides, quotes and forms of numbers."""
    op, *rest = tree
    if op in ("&&", "||"):
        parts = [bracketed(random, part, within=part[0] in ("&&", "||")) for part in rest]
        random.shuffle(parts)
        if random.random() < 0.2:
            parts.append(random.choice(parts))
        return random.choice([f" {op} ", op, f"\t{op}\n"]).join(parts)
    if op == "!":
        (inner,) = rest
        if inner[0] in ("&&", "||") and random.random() < 0.3:
            other = "||" if inner[0] == "&&" else "&&"
            return spelled(random, (other, *(("!", part) for part in inner[1:])))
        return random.choice(["!", "! ", "!!!"]) + bracketed(random, inner, within=len(inner) > 1)
    if not rest:
        return op
    name, given = rest
    if op == "has":
        return f"{literal(random, given)} in {name}"
    if op == "in":
        return f"{name} in [{', '.join(literal(random, each) for each in random.sample(given, len(given)))}]"
    if op == "!=" and random.random() < 0.3:
        return f"!({name} == {literal(random, given)})"
    blank = random.choice(["", " "])
    if random.random() < 0.5:
        return f"{name}{blank}{op}{blank}{literal(random, given)}"
    return f"{literal(random, given)}{blank}{OPS[op]}{blank}{name}"


def bracketed(random: Random, tree: tuple[Any, ...], *, within: bool) -> str:
    return f"({spelled(random, tree)})" if within or random.random() < 0.2 else spelled(random, tree)


def broken(random: Random, text: str) -> str:
    """A text in which a piece was put in, or some characters were left out."""
    at = random.randint(0, len(text))
    if random.random() < 0.5:
        return f"{text[:at]}{random.choice(['', ' '])}{random.choice(PIECES)} {text[at:]}"
    return text[:at] + text[at + random.randint(1, 4) :]


def said_by_cel(text: str, given: dict[str, Any]) -> bool | None:
    """What CEL says, None for an error and for a value that is no boolean; raises RuntimeError for what is not CEL."""
    said = ENV.compile(text).eval(data=given)
    return said.value() if said.type() == cel.Type.BOOL else None


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Expressions that the language has, each with attributes; some are broken ones that happen to be in it."""
    random = Random(SEED)
    while True:
        text = spelled(random, expression(random, random.randint(0, 2)))
        if random.random() < 0.5:
            text = broken(random, text)
            if not is_read(text):
                continue
        yield text, attributes(random)


def is_read(text: str) -> bool:
    """Whether the language has a text, with no names but those of `NAMES`, which alone this CEL knows."""
    try:
        return parse(text).names <= NAMES.keys()
    except BadWhere:
        return False


@pytest.fixture
def said_by_redis(redis):
    """What the judge in Redis says of pairs of a tree and attributes, both as JSON."""
    judge = """
    local said = {}
    for i = 1, #ARGV, 2 do said[#said + 1] = tostring(wants.judge(cjson.decode(ARGV[i]), cjson.decode(ARGV[i + 1]))) end
    return said
    """
    script = redis.register_script(modules("numbers", "wants") + judge)
    meant = {"true": True, "false": False, "nil": None}
    return lambda pairs: [meant[said] for said in script(args=[text for pair in pairs for text in pair])]


def test_every_expression_is_judged_as_by_cel(said_by_redis):
    found = cases()
    seen = Counter()
    for _ in range(0, CASES, 500):
        batch = list(islice(found, 500))
        expected = [said_by_cel(text, given) for text, given in batch]
        pairs = [(parse(text).tree, read_attributes(given)) for text, given in batch]
        in_python = [suits(orjson.loads(tree), orjson.loads(given)) for tree, given in pairs]
        for case, cel_says, python, redis in zip(batch, expected, in_python, said_by_redis(pairs), strict=True):
            assert (python, redis) == (cel_says, cel_says), case
        seen.update(expected)
    assert min(seen[True], seen[False], seen[None]) > CASES / 10


def test_the_failing_clause_is_one_that_cel_does_not_hold_true_either():
    for text, given in islice(cases(), CASES // 4):
        where, canonical = parse(text), orjson.loads(read_attributes(given))
        clause = failing(where, canonical)
        assert (clause == "") == (said_by_cel(text, given) is True)
        assert clause in text
        assert clause == "" or said_by_cel(clause, given) is not True
        assert (hint(where, "gpu", [PoolClass("gpu", canonical, 1, 0)]) == "") == (clause == "")


def test_spellings_of_one_expression_have_one_digest():
    random = Random(SEED)
    for _ in range(CASES // 4):
        tree = expression(random, random.randint(0, 2))
        one, other = spelled(random, tree), spelled(random, tree)
        assert parse(one).want == parse(other).want, (one, other)


def test_expressions_that_differ_for_some_slot_have_different_digests():
    random = Random(SEED)
    slots = [attributes(random) for _ in range(20)]
    said: dict[str, list[bool | None]] = {}
    for text, _ in islice(cases(), CASES // 4):
        verdicts = [said_by_cel(text, given) for given in slots]
        assert said.setdefault(parse(text).want, verdicts) == verdicts, text
