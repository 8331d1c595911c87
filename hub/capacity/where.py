"""The language of `where`, a subset of CEL: parsed to a canonical tree, judged here and in lua/wants.lua. Pure.

    expression = all { "||" all }    all = one { "&&" one }    one = comparison | { "!" } ( "(" expression ")" | name )
    comparison = name op value | value op name | name "in" "[" value { "," value } "]" | text "in" name
    op = "==" | "!=" | "<" | "<=" | ">" | ">="       value = number | text | "true" | "false"

In the tree negations stand at the comparisons, the members of `&` and `|` are flat, sorted and without repeats, and
values are on the right, so that expressions that differ in spelling alone have one tree:

    ["&", tree, ...]  ["|", tree, ...]  [op, name, value]  ["in", name, [value, ...]]  ["has", name, text]  ["is", name]

`!in`, `!has` and `!is` are the negated ones. What a comparison says of a missing attribute is not known, nor what it
says of one of a type for which CEL has no such operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

import orjson

from hub.capacity.attributes import NAME, NAME_MAX, PoolClass, canonical_number, digest, is_name
from hub.errors import BadWhere

LENGTH_MAX, COMPARISONS_MAX, DEPTH_MAX, MEMBERS_MAX = 1024, 32, 16, 64
KEPT = 1_000  # parsed expressions that are cached
LISTED_MAX, SHOWN_MAX = 8, 60  # values in a hint, and characters of each
_PLAIN = r"\x00-\x08\x0a-\x1f\x7f\ud800-\udfff\\"  # what stands in no text as it is, besides its quote
_TOKEN = re.compile(
    rf"""[ \t\r\n\f]*(?:
    (?P<bool>(?:true|false)(?![A-Za-z0-9_.]))
    |(?P<op>&&|\|\||[=!<>]=|[<>!()\[\],]|in(?![A-Za-z0-9_.]))
    |(?P<name>{NAME})
    |(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<text>"(?:[^"{_PLAIN}]|\\["'\\nt])*"|'(?:[^'{_PLAIN}]|\\["'\\nt])*')
    |(?P<end>\Z)
    |(?P<other>.))""",
    re.VERBOSE | re.DOTALL,
)
_BEGUN = re.compile(rf"""(["'])(?:(?!\1)[^{_PLAIN}]|\\["'\\nt])*""")  # the valid beginning of a text
_ESCAPE = re.compile(r"\\(.)")
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "!in", "has": "!has", "is": "!is"}
_ORDERS = {"<": lt, "<=": le, ">": gt, ">=": ge}
_COMPARING = {*_MIRRORED, "in"}
_VALUES = {"number", "text", "bool"}
_OPS = "==, !=, <, <=, >, >="


@dataclass(frozen=True)
class Where:
    """An expression: as it was written, the digest of its tree, the tree as JSON, and the attributes that it names."""

    text: str
    want: str
    tree: str
    names: frozenset[str]


class _Node(NamedTuple):
    op: str  # '&', '|', or '' for a comparison
    parts: tuple[str, ...]  # the members of `&` and `|` as JSON, sorted
    tree: str  # the whole as JSON


class _Clause(NamedTuple):
    text: str  # as it is written
    tree: str
    bracketed: bool


def parse(text: str) -> Where:
    """Return the expression that a text spells; raises `BadWhere` with the position of the first character that does
    not belong there, counted from 1, and with what is expected there.
    """
    return _read(text)[0]


@lru_cache(maxsize=KEPT)
def _read(text: str) -> tuple[Where, tuple[_Clause, ...]]:
    """Return an expression, and its clauses, all of which must be true."""
    if len(text) > LENGTH_MAX:
        raise _bad(LENGTH_MAX, f"the end: it has at most {LENGTH_MAX} characters")
    parser = _Parser(text)
    tree = parser.expression(0, negated=False).tree
    if parser.kind != "end":
        raise parser.refused(parser.after("the end"))
    return Where(text, digest(tree), tree, frozenset(parser.names)), tuple(parser.clauses)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.clauses: list[_Clause] = []  # what `&&` joins outside all brackets
        self._comparisons = 0
        self._bare = ""  # what else may follow the comparison that was read last
        self._tokens = _TOKEN.finditer(text)
        self.raw, self._stop, self._end = "", 0, 0  # `_end`: of the last token that was taken
        self._take()

    def _take(self) -> str:
        """Return the text of the token that comes next, and go on to the one behind it."""
        raw, self._end = self.raw, self._stop
        token = next(self._tokens)
        self.kind, self._stop = token.lastgroup or "", token.end()
        self.raw, self._start = token[self.kind], token.start(self.kind)
        return raw

    def refused(self, expected: str, at: int | None = None) -> BadWhere:
        """Return the refusal that says what is expected at the token that comes next, or at an index."""
        begun = _BEGUN.match(self.text, self._start) if self.kind == "other" and "a text" in expected else None
        if begun is None:
            return _bad(self._start if at is None else at, expected)
        escape = self.text[begun.end() : begun.end() + 1] == "\\"
        return _bad(begun.end(), r"""\" \' \\ \n or \t""" if escape else f"{begun[1]} that ends the text")

    def after(self, end: str) -> str:
        """Return what may follow what was read, where `end` may end it."""
        return f"{self._bare}&&, || or {end}"

    def expression(self, depth: int, *, negated: bool) -> _Node:
        start = self._start
        nodes = [self._all(depth, negated)]
        while self.raw == "||":
            self._take()
            nodes.append(self._all(depth, negated))
        node = _joined("&" if negated else "|", nodes)
        if depth == 0 and len(nodes) > 1:
            self.clauses = [_Clause(self.text[start : self._end], node.tree, False)]
        return node

    def _all(self, depth: int, negated: bool) -> _Node:
        nodes = [self._clause(depth, negated)]
        while self.raw == "&&":
            self._take()
            nodes.append(self._clause(depth, negated))
        return _joined("|" if negated else "&", nodes)

    def _clause(self, depth: int, negated: bool) -> _Node:
        start, bracketed = self._start, self.raw == "("
        node = self._one(depth, negated, within=False)
        if depth == 0:
            self.clauses.append(_Clause(self.text[start : self._end], node.tree, bracketed))
        return node

    def _one(self, depth: int, negated: bool, *, within: bool) -> _Node:
        """`within`: a `!` stands before; it binds tighter than a comparison, so an attribute alone may follow it."""
        if self.raw not in ("!", "("):
            tree = self._comparison(negated, within)
            return _Node("", (tree,), tree)
        if depth == DEPTH_MAX:
            raise self.refused(f"at most {DEPTH_MAX} brackets and ! within each other")
        if self._take() == "!":
            return self._one(depth + 1, not negated, within=True)
        node = self.expression(depth + 1, negated=negated)
        if self.raw != ")":
            raise self.refused(self.after(")"))
        self._take()
        self._bare = ""
        return node

    def _comparison(self, negated: bool, within: bool) -> str:
        if self._comparisons == COMPARISONS_MAX:
            raise self.refused(f"at most {COMPARISONS_MAX} comparisons")
        self._comparisons += 1
        self._bare = ""
        if self.kind == "name":
            op, name, value = self._of_attribute(within)
        elif self.kind in _VALUES and not within:
            op, name, value = self._of_value()
        else:
            values = "" if within else "a number, a text, true, false, "
            raise self.refused(f"an attribute, {values}! or (")
        return f'["{_NEGATED[op] if negated else op}","{name}"{value and ","}{value}]'

    def _of_attribute(self, within: bool) -> tuple[str, str, str]:
        name = self._name()
        if not within and self.raw in _MIRRORED:
            op = self._take()
            return op, name, self._value(ordered=op in _ORDERS)
        if not within and self.raw == "in":
            self._take()
            members = self._members()
            return ("==", name, members[0]) if len(members) == 1 else ("in", name, f"[{','.join(members)}]")
        if not within:
            self._bare = f"{_OPS}, in, "
        elif self.raw in _COMPARING:
            self._bare = "( before the attribute, "
        return "is", name, ""

    def _of_value(self) -> tuple[str, str, str]:
        kind, start = self.kind, self._start
        value = self._value(ordered=False)
        op = "has" if self.raw == "in" else _MIRRORED.get(self.raw, "")
        if not op:
            raise self.refused(f"{_OPS} or in")
        if op == "has" and kind != "text":
            raise self.refused("a text before in", start)
        if op in _ORDERS and kind == "bool":
            raise self.refused("a number or a text", start)
        self._take()
        return op, self._name(), value

    def _name(self) -> str:
        if self.kind != "name":
            raise self.refused("an attribute")
        if not is_name(self.raw):
            raise self.refused(f"a name of at most {NAME_MAX} characters without reserved words of CEL")
        self.names.add(self.raw)
        return self._take()

    def _value(self, *, ordered: bool) -> str:
        kind, start = self.kind, self._start
        if kind == "number":
            raw = self._take()
            try:
                return orjson.dumps(canonical_number(float(raw))).decode()
            except ValueError as error:
                raise self.refused(str(error), start) from None
        if kind == "text":
            text = self._take()[1:-1]
            if "\\" in text:
                text = _ESCAPE.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)
            return orjson.dumps(text).decode()
        if kind == "bool" and not ordered:
            return self._take()
        raise self.refused("a number or a text" if ordered else "a number, a text, true or false")

    def _members(self) -> list[str]:
        if self.raw != "[":
            raise self.refused("[")
        members: list[str] = []
        while not members or self.raw == ",":
            self._take()
            if len(members) == MEMBERS_MAX:
                raise self.refused(f"at most {MEMBERS_MAX} members")
            members.append(self._value(ordered=False))
        if self.raw != "]":
            raise self.refused(", or ]")
        self._take()
        return sorted(set(members))


def _joined(op: str, nodes: list[_Node]) -> _Node:
    if len(nodes) == 1:
        return nodes[0]
    parts: set[str] = set()
    for node in nodes:
        if node.op == op:
            parts.update(node.parts)
        else:
            parts.add(node.tree)
    if len(parts) == 1:
        return nodes[0]
    ordered = tuple(sorted(parts))
    return _Node(op, ordered, f'["{op}",{",".join(ordered)}]')


def _bad(at: int, expected: str) -> BadWhere:
    return BadWhere(f"where: expected {expected}, at position {at + 1}", position=at + 1, expected=expected)


def suits(tree: list[Any], attributes: Mapping[str, Any]) -> bool | None:
    """Return whether attributes are as a tree says, None where a missing attribute, or one of another type, decides."""
    op: str = tree[0]
    rest = tree[1:]
    if op in ("&", "|"):
        said = [suits(part, attributes) for part in rest]
        if (op == "|") in said:
            return op == "|"
        return None if None in said else op == "&"
    found = attributes.get(rest[0])
    if found is None:
        return None
    if op.startswith("!"):
        says = _says("==" if op == "!=" else op[1:], found, rest[-1])
        return None if says is None else not says
    return _says(op, found, rest[-1])


def _says(op: str, found: Any, value: Any) -> bool | None:
    """Return what a comparison says of an attribute, None where CEL has no such operator for its type."""
    kind = _kind(found)
    if op == "==":
        return kind is _kind(value) and bool(found == value)
    if op == "in":
        return any(kind is _kind(each) and found == each for each in value)
    if op == "is":
        return found if isinstance(found, bool) else None
    if op == "has":
        return bool(value in found) if kind is list else None
    return bool(_ORDERS[op](found, value)) if kind is _kind(value) else None


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def failing(where: Where, attributes: Mapping[str, Any]) -> str:
    """Return the first clause of an expression that attributes do not satisfy, as it is written; '' for none."""
    return next((text for text, tree in _clauses(where) if not suits(tree, attributes)), "")


def hint(where: Where, label: str, found: Sequence[PoolClass]) -> str:
    """Return why no slot under a label can be as an expression says, from the classes that there are; '' where one can.

    The sentence names the first clause that no class satisfies and what the slots have instead.
    """
    tree = orjson.loads(where.tree)
    if any(suits(tree, each.attributes) for each in found):
        return ""
    known = sorted({name for each in found for name in each.attributes})
    if not known:
        return f"no slot of {label} has attributes"
    numbers = []
    for text, part in _clauses(where):
        slots = sum(each.slots for each in found if suits(part, each.attributes))
        if slots == 0:
            return _in_vain(text, label, found, known)
        numbers.append(f"{text} ({slots})")
    return f"no slot of {label} has all of {', '.join(numbers)}"


def _in_vain(text: str, label: str, found: Sequence[PoolClass], known: list[str]) -> str:
    names = sorted(parse(text).names)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            more = f"did you mean {near[0]}?" if near else f"they have {_listed(known, 'and')}"
            return f"no slot of {label} has `{name}`; {more}"
    has = [f"{name} " * (len(names) > 1) + _values(name, found) for name in names]
    slots = sum(each.slots for each in found)
    number, do = ("slot", "has") if slots == 1 else (f"{slots} slots", "have")
    return f"{text}: the {number} of {label} with attributes {do} {'; '.join(has)}"


def _values(name: str, found: Sequence[PoolClass]) -> str:
    values = [each.attributes[name] for each in found if name in each.attributes]
    distinct = {orjson.dumps(value).decode(): value for value in values}
    texts = sorted(distinct, key=lambda text: (_kind(distinct[text]).__name__, distinct[text]))
    return _listed([*texts, f"no {name}"] if len(values) < len(found) else texts, "or")


def _listed(texts: list[str], word: str) -> str:
    if len(texts) > LISTED_MAX:
        texts = [*texts[: LISTED_MAX - 1], f"{len(texts) - LISTED_MAX + 1} others"]
    *first, last = [text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..." for text in texts]
    return f"{', '.join(first)} {word} {last}" if first else last


def _clauses(where: Where) -> list[tuple[str, list[Any]]]:
    """Return what must all be true: each clause as it is written, without brackets around it, and its tree."""
    found: list[tuple[str, list[Any]]] = []
    for text, tree, bracketed in _read(where.text)[1]:
        found += _clauses(parse(text[1:-1].strip())) if bracketed else [(text, orjson.loads(tree))]
    return found
