"""How a script is put together: what it includes, and which functions of that it is given."""

from __future__ import annotations

import re

import pytest

from hub.store import scripts
from hub.store.keys import Keys


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The text of a script that may include files with these texts."""
    monkeypatch.setattr(scripts, "folder", lambda: tmp_path)

    def put_together(script, **includes):
        for name, text in {"made/up": script, **{f"include/{name}": text for name, text in includes.items()}}.items():
            path = tmp_path / f"{name}.lua"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return scripts.load("made/up", Keys()).text

    return put_together


def functions(text):
    return re.findall(r"local function (\w+)", text)


HELPERS = """
local function tenth(n) return n / 10 end
local function half(n) return n / 2 end
-- As `half`, rounded down.
local function rounded(n)
  if n < 0 then return 0 end
  return math.floor(half(n))
end
local function tenths(n)
  return math.floor(tenth(n))
end
"""


def test_a_script_is_given_the_functions_it_calls_and_those_that_they_call(redis, made):
    text = made("-- @include helpers\n-- Not `tenths`.\nreturn rounded(5)\n", helpers=HELPERS)
    assert (functions(text), redis.eval(text, 0)) == (["half", "rounded"], 2)


def test_a_file_is_brought_in_once_however_often_it_is_included(redis, made):
    text = made("-- @include a\n-- @include b\nreturn a() + b()\n", base="local function one() return 1 end\n",
                a="-- @include base\nlocal function a() return one() end\n",
                b="-- @include base\nlocal function b() return one() end\n")  # fmt: skip
    assert (functions(text), redis.eval(text, 0)) == (["one", "a", "b"], 2)


SELDOM = "-- @include base\nlocal function seldom()\n  return one() + 1\nend\n"
BRANCH = "if true then\n  -- @include seldom\n  answer = seldom()\nend\n"


@pytest.mark.parametrize(
    ("before", "after", "defined"),
    [
        ("", "return answer\n", ["one", "seldom"]),
        ("-- @include seldom\n", "return answer + seldom() - 2\n", ["one", "seldom"]),
        ("", "-- @include seldom\nreturn answer + seldom() - 2\n", ["one", "seldom", "one", "seldom"]),
    ],
    ids=["there alone", "known already", "and once more below"],
)
def test_an_include_in_a_branch_is_for_that_branch(redis, made, before, after, defined):
    script = f"local answer = 0\n{before}{BRANCH}{after}"
    text = made(script, seldom=SELDOM, base="local function one() return 1 end\n")
    assert (functions(text), redis.eval(text, 0)) == (defined, 2)
