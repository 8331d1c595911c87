"""The file of realms: what it may say, what is refused and how, and which rule fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import StartRefused
from hub.settings import Settings, load_settings
from hub.settings.realms import (
    PATTERN_MAX,
    PATTERNS_MAX,
    REALMS_MAX,
    Realm,
    Rules,
    read_realms,
    stamped,
    tag_in,
    tag_of,
)
from hub.settings.served import settings_of

EU = '[[realms]]\nname = "eu"\nurl = "redis://eu:6379"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "realms.toml"
    path.write_text(text)
    return path


def test_realms_are_read_from_the_file_in_its_order(tmp_path):
    text = EU + 'labels = ["gpu:*:eu"]\nrooms = ["lab-*"]\nnodes = ["eu-*", "old"]\n'
    text += '[[realms]]\nname = "us-1"\nurl = "redis+cluster://:pass@a:1,b:2"\n'
    eu, us = read_realms(written(tmp_path, text))
    assert eu == Realm("eu", "redis://eu:6379", ("gpu:*:eu",), ("lab-*",), ("eu-*", "old"))
    assert (eu.prefix, us.prefix, us.shown) == ("{eu}:", "{us-1}:", "redis+cluster://:***@a:1,b:2")


def test_the_default_realm_may_be_in_the_file_to_set_its_spill_over(tmp_path):
    text = EU + '[[realms]]\nname = "default"\nspill_to = ["eu"]\nspill_after_s = 2\n'
    _, default = read_realms(written(tmp_path, text), "{default}:")
    assert default == Realm("default", "", spill_to=("eu",), spill_after_s=2.0)


def test_an_empty_file_has_no_realms(tmp_path):
    assert read_realms(written(tmp_path, "")) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[realms", "is no TOML (at end of document)"),
        ("realms = 3", "realms is no list"),
        ("[[worlds]]", "'worlds' means nothing at the top"),
        ("realms = [1]", "realms is no list of tables"),
        ('[[realms]]\nname = "eu"', "entry 1: url is missing"),
        ('[[realms]]\nurl = "redis://a"', "entry 1: name is missing"),
        (EU + 'colour = "red"', "entry 1: 'colour' is no field of a realm"),
        (EU.replace('"eu"', '"EU"'), "entry 1: name must be 1 to 32 of a-z, 0-9 and -"),
        (EU.replace('"eu"', '"a}b"'), "entry 1: name must be 1 to 32"),
        (EU.replace('"eu"', f'"{"a" * 33}"'), "entry 1: name must be 1 to 32"),
        (EU.replace('"eu"', '""'), "entry 1: name must be 1 to 32"),
        (EU.replace('"eu"', "7"), "entry 1: name must be 1 to 32"),
        (EU.replace('"eu"', '"default"'), "entry 1: default, the realm of HUB_REDIS_URL, has no url of its own here"),
        ('[[realms]]\nname = "default"\nlabels = ["a"]', "has no labels of its own here"),
        ('[[realms]]\nname = "default"\nspill_to = ["default"]', "spill_to names default, which is no other realm"),
        (EU + 'spill_to = ["us"]', "entry 1: spill_to names us, which is no other realm"),
        (EU + 'spill_to = "us"', "entry 1: spill_to must be a list of at most 8 names"),
        (EU + "spill_to = [7]", "entry 1: spill_to must hold names of realms"),
        (EU + "spill_after_s = -1", "entry 1: spill_after_s must be seconds, from 0 to 3600"),
        (EU + "spill_after_s = nan", "entry 1: spill_after_s must be seconds"),
        (EU + "spill_after_s = true", "entry 1: spill_after_s must be seconds"),
        (EU + EU, "entry 2: name is that of entry 1 again"),
        (EU.replace('"eu"', '"own"'), "as those of the default realm do (HUB_KEY_PREFIX)"),
        (EU.replace("redis://eu", "ftp://eu"), "entry 1: url begins with ftp://"),
        (EU.replace('"redis://eu:6379"', '""'), "url must be the URL of a Redis"),
        (EU.replace("redis://eu:6379", "redis+cluster://:geheim@a:1/7"), "names a database, and a cluster has none"),
        (EU + "labels = 'gpu:*'", f"labels must be a list of at most {PATTERNS_MAX} patterns"),
        (EU + f"rooms = {['a'] * (PATTERNS_MAX + 1)}", "rooms must be a list of at most"),
        (EU + 'nodes = [""]', "nodes must hold patterns of 1 to"),
        (EU + f'nodes = ["{"a" * (PATTERN_MAX + 1)}"]', "nodes must hold patterns of 1 to"),
        (EU + "nodes = [1]", "nodes must hold patterns of 1 to"),
        ("".join(EU.replace('"eu"', f'"r{n}"') for n in range(REALMS_MAX + 1)), f"at most {REALMS_MAX} are served"),
    ],
)
def test_an_unusable_realms_file_is_refused_in_one_sentence_with_the_place(tmp_path, text, why):
    path = written(tmp_path, text)
    with pytest.raises(StartRefused) as refused:
        read_realms(path, "{own}:")
    said = str(refused.value)
    assert said.startswith(f"HUB_REALMS_FILE={path}")
    assert (why in said, "geheim" in said, "\n" in said, said[-1]) == (True, False, False, ".")


def test_a_missing_realms_file_is_refused(tmp_path):
    with pytest.raises(StartRefused, match="cannot be read: No such file"):
        read_realms(tmp_path / "none.toml")


def rules(**patterns: list[tuple[str, str]]) -> Rules:
    """`rules(labels=[("gpu:*", "eu")])`: a realm for each pattern, in this order."""
    return Rules(Realm(name, "redis://a", **{kind: (p,)}) for kind, pairs in patterns.items() for p, name in pairs)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("gpu:a100:eu", ["gpu:a100:eu"], ["gpu:a100", "gpu:a100:eu:x", ""]),
        ("gpu:*", ["gpu:", "gpu:a100:eu"], ["gpu", "xgpu:a"]),
        ("*:eu", ["gpu:eu", ":eu"], ["gpu:eux", "eu"]),
        ("gpu:*:eu", ["gpu:a100:eu", "gpu::eu"], ["gpu:eu", "gpu:a:us"]),
        ("a*b*c", ["abc", "axbxc", "abbcc"], ["acb", "ab", "abcd"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*", ["", "anything"], []),
        ("a.c", ["a.c"], ["abc"]),
        ("[a]?", ["[a]?"], ["a", "ab"]),
    ],
)
def test_in_a_pattern_only_the_star_is_special(pattern, fitting, other):
    found = rules(nodes=[(pattern, "eu")])
    assert [text for text in [*fitting, *other] if found.find("nodes", text) == "eu"] == fitting


def test_the_first_matching_rule_decides_for_each_kind():
    found = rules(labels=[("gpu:*", "one"), ("gpu:a100", "two")], rooms=[("lab", "three")])
    assert found.find("labels", "gpu:a100") == "one"
    assert found.find("rooms", "lab") == "three"
    assert found.find("nodes", "lab") is None
    assert (found.has("labels"), found.has("nodes")) == (True, False)


def test_every_pattern_is_matched_quickly_against_any_text():
    found = rules(labels=[("a*" * (PATTERN_MAX // 2), "eu")])
    assert found.find("labels", "a" * 50 + "b" * 500_000) is None  # trying every way to split it would never end


def test_two_different_sets_of_rules_have_different_versions():
    same = [rules(labels=[("a", "eu")]).version for _ in range(2)]
    assert same[0] == same[1] != rules(labels=[("b", "eu")]).version


def test_an_id_contains_its_realm_unless_that_is_the_default_realm():
    plain = "0123456789ab4cdef0123456789abcde"[:32]
    said = stamped(plain, "eu")
    assert (tag_in(said), tag_in(plain), stamped(plain, "")) == (tag_of("eu"), "", plain)
    assert (said[8:12], said[13:]) == (plain[8:12], plain[13:])


def test_a_realm_has_its_own_store_and_neither_recovery_sources_nor_internal_jobs():
    settings = Settings(redis_url="redis://a", recovery_sources="x:y", internal_jobs="a:b", node_timeout_s=7)
    own = settings_of(Realm("eu", "redis://b"), settings)
    assert (own.redis_url, own.key_prefix, own.realm) == ("redis://b", "{eu}:", "eu")
    assert (own.recovery_sources, own.internal_jobs, own.node_timeout_s) == ("", "", 7)


def test_the_realms_that_a_hub_serves_are_a_list_of_names():
    assert load_settings({"HUB_REALMS": " eu, default ,eu"}).realms == ("eu", "default")
    with pytest.raises(StartRefused, match="HUB_REALMS='EU' is no list of realms"):
        load_settings({"HUB_REALMS": "EU"})
