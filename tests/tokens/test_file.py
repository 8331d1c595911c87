"""The tokens file: what it may say, what it is refused for, and reading it again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import UUID

import pytest

from hub.errors import StartRefused
from hub.tokens.file import TokensFile, read_tokens
from hub.tokens.models import Holder, covers, user_of

ANN = "0123456789abcdef0123456789abcdef"
GOOD = f"""
[[tokens]]
token = "ann-1"
user = "ann"
user_id = "{UUID(ANN)}"
superuser = true
scopes = ["read", "admin"]

[[tokens]]
sha256 = "{hashlib.sha256(b"bob-1").hexdigest().upper()}"
user = "Bob Ö"
active = false

[[tokens]]
token = "bob-2"
user = "Bob Ö"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_the_tokens_file_decides_whom_a_token_identifies(path):
    path.write_text(GOOD)
    file = TokensFile(path)
    assert {secret: file.resolve(secret) for secret in ("ann-1", "bob-1", "bob-2", "bob-3")} == {
        "ann-1": Holder("ann", ANN, superuser=True, scopes=frozenset({"read", "admin"})),
        "bob-1": Holder("Bob Ö", user_of("Bob Ö"), active=False),
        "bob-2": Holder("Bob Ö", user_of("Bob Ö")),
        "bob-3": None,
    }
    assert [token.holder.name for token in file.tokens] == ["ann", "Bob Ö", "Bob Ö"]
    assert file.find(file.tokens[1].id) == file.tokens[1]


def test_the_id_of_a_user_name_is_the_same_on_every_machine():
    assert user_of("ann") == "c0d6acf827935e098587da8c03c86f08"


@pytest.mark.parametrize("text", ["", "# nobody yet\n", "tokens = []\n"], ids=["empty", "comment", "empty list"])
def test_a_file_without_tokens_is_valid(path, text):
    path.write_text(text)
    assert TokensFile(path).tokens == []


ENTRY = '[[tokens]]\ntoken = "s3cr3t-a"\nuser = "ann"\n'
BAD = {
    'x = "s3cr3t': " is no TOML (at ",
    '[[tokens]]\ntoken = "s3cr3t" "s3cr3t"\n': " is no TOML (at line 2",
    "x = " + "[" * 5000: " is no TOML",
    "x = " + "9" * 5000: " is no TOML",
    "[token]\n": ": 'token' means nothing at the top; write one [[tokens]] per token.",
    "tokens = 7\n": ": tokens is no list of tables; write [[tokens]] above each token.",
    '[tokens]\ntoken = "s3cr3t"\n': ": tokens is no list",
    'tokens = ["s3cr3t"]\n': ": tokens is no list of tables",
    f"{ENTRY}[[tokens]]\n": ", entry 2: user is missing.",
    '[[tokens]]\nuser = "ann"\n': ", entry 1: one of token, sha256 and certificate must be there, and only one.",
    f'{ENTRY}sha256 = "{"0" * 64}"\n': ", entry 1: one of token, sha256 and certificate must be there, and only one.",
    f"{ENTRY}superusr = true\n": ", entry 1: 'superusr' is no field of a token; there are token, sha256, user,",
    f'{ENTRY}superuser = "s3cr3t"\n': ", entry 1: superuser must be true or false.",
    f"{ENTRY}active = 0\n": ", entry 1: active must be true or false.",
    f'{ENTRY}user_id = "s3cr3t"\n': ", entry 1: user_id must be a UUID.",
    f"{ENTRY}user_id = 7\n": ", entry 1: user_id must be a UUID.",
    f"{ENTRY}scopes = []\n": ", entry 1: scopes must be a list of some of worker, submit, read, admin, borrow",
    f'{ENTRY}scopes = ["all"]\n': ", entry 1: scopes must be a list of some of",
    f'{ENTRY}scopes = "read"\n': ", entry 1: scopes must be a list of some of",
    f"{ENTRY}scopes = [[]]\n": ", entry 1: scopes must be a list of some of",
    '[[tokens]]\ntoken = ""\nuser = "ann"\n': ", entry 1: token must be 1 to 512 visible ASCII characters",
    '[[tokens]]\ntoken = "s3cr3t ö"\nuser = "ann"\n': ", entry 1: token must be 1 to 512 visible ASCII",
    f'[[tokens]]\ntoken = "{"s3cr3t" * 100}"\nuser = "ann"\n': ", entry 1: token must be 1 to 512 visible ASCII",
    "[[tokens]]\ntoken = 7\nuser = 'ann'\n": ", entry 1: token must be 1 to 512 visible ASCII",
    "[[tokens]]\nsha256 = 's3cr3t'\nuser = 'ann'\n": ", entry 1: sha256 must be a SHA-256, 64 hex digits.",
    "[[tokens]]\ntoken = 's3cr3t'\nuser = ''\n": ", entry 1: user must be 1 to 200 printable characters",
    "[[tokens]]\ntoken = 's3cr3t'\nuser = ' ann'\n": ", entry 1: user must be 1 to 200 printable characters",
    '[[tokens]]\ntoken = "s3cr3t"\nuser = "a\\u0007"\n': ", entry 1: user must be 1 to 200 printable characters",
    "[[tokens]]\ntoken = 's3cr3t'\nuser = 7\n": ", entry 1: user must be 1 to 200 printable characters",
    f"{ENTRY}[[tokens]]\nuser = 'bob'\ntoken = 's3cr3t-a'\n": ", entry 2: token is the one of entry 1 again.",
}


@pytest.mark.parametrize(("text", "sentence"), BAD.items(), ids=[str(number) for number in range(len(BAD))])
def test_an_unusable_tokens_file_is_refused_in_one_sentence_without_secrets(path, text, sentence):
    path.write_text(text)
    with pytest.raises(StartRefused) as refused:
        read_tokens(path)
    said = str(refused.value)
    assert said.startswith(f"HUB_TOKENS_FILE={path}{sentence}"), said
    assert said.endswith(".")
    assert "\n" not in said
    assert "s3cr3t" not in said


def test_a_file_that_an_editor_marked_as_utf_8_is_read(path):
    path.write_text(f"\ufeff{ENTRY}")
    assert len(read_tokens(path)) == 1


def test_a_file_that_cannot_be_read_is_refused(path):
    for wrong, why in ((path, "No such file or directory"), (path.parent, "Is a directory")):
        with pytest.raises(StartRefused, match=f"cannot be read: {why}"):
            read_tokens(wrong)
    path.write_bytes(b'[[tokens]]\ntoken = "\xff"\n')
    with pytest.raises(StartRefused, match=r"is no UTF-8 text\."):
        read_tokens(path)


def test_a_tokens_file_that_became_unusable_changes_nothing_and_is_logged(path, caplog):
    path.write_text(GOOD)
    file = TokensFile(path)
    for worse in ("nonsense", f"{ENTRY}scopes = []\n", None):
        path.write_text(worse) if worse else path.unlink()
        caplog.clear()
        file.read_again()
        assert len(file.tokens) == 3
        assert "tokens file rejected" in caplog.text
    path.write_text(ENTRY)
    file.read_again()
    assert file.resolve("ann-1") is None
    assert file.resolve("s3cr3t-a") == Holder("ann", user_of("ann"))
    assert "s3cr3t" not in caplog.text


def test_without_a_tokens_file_no_token_is_known():
    file = TokensFile(None)
    file.read_again()
    assert (file.tokens, file.resolve("x"), file.find("x")) == ([], None, None)


def test_the_tokens_file_says_what_a_token_may_borrow_and_until_when(path):
    path.write_text(
        '[[tokens]]\ntoken = "ada-1"\nuser = "ada"\nscopes = ["borrow"]\nteam = "ml"\nlabels = ["gpu:*"]\n'
        "max_priority = 10\nexpires = 2030-01-01\n"
    )
    holder = TokensFile(path).resolve("ada-1")
    assert holder is not None
    assert (holder.team, holder.labels, holder.max_priority) == ("ml", ("gpu:*",), 10)
    assert holder.is_good(1_893_455_999) and not holder.is_good(1_893_456_000)  # noqa: PT018 - one instant


@pytest.mark.parametrize(
    "line", ["labels = []", 'team = ""', "max_priority = 101", 'expires = "soon"', "expires = 2030-01-01T00:00:00"]
)
def test_terms_that_no_token_can_have_are_refused_in_the_file(path, line):
    path.write_text(f'[[tokens]]\ntoken = "ada-1"\nuser = "ada"\n{line}\n')
    with pytest.raises(StartRefused, match=f"entry 1: {line.partition(' ')[0]} must"):
        read_tokens(path)


@pytest.mark.parametrize(
    ("pattern", "label", "covered"),
    [
        ("gpu:*", "gpu:a100", True), ("gpu:*", "gpu:a100:80g", True), ("gpu:*", "gpu:*:40g", True),
        ("gpu:*", "gpu:*", True), ("gpu:*", "cpu:big", False), ("gpu:a100", "gpu:*", False),
        ("gpu:a100", "gpu:a10", False),
        ("gpu:a100:80g", "gpu:a100", False), ("*:a100", "gpu:a100", True), ("*", "gpu:a100", True),
    ],
)  # fmt: skip
def test_a_pattern_covers_what_is_as_special_or_more(pattern, label, covered):
    assert covers(pattern, label) is covered
