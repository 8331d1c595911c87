"""Which pool serves a label: every row of the tables, by real borrows, with slots from other programs and over HTTP.

Two rows of the table need a fallback floor of three segments, which is an option of the original's library that the
hub does not have.
"""

from __future__ import annotations

import pytest

from tests.world import borrow, listed, publish, push

DEFAULTS: dict[str, object] = {}
TF_OFF: dict[str, object] = {"borrow_trailing_fallback": False}
PX_OFF: dict[str, object] = {"borrow_prefix_expand": False}
WC_ON: dict[str, object] = {"borrow_wildcards": True}

ROWS = [
    ("M1", "Pay:Chromium:Prod", "Pay:Chromium Pay:Chromium:Prod:emea Pay:Chromium:Prod", DEFAULTS, "Pay:Chromium:Prod"),
    ("M2", "pay:chromium:prod", "Pay:Chromium:Prod", DEFAULTS, None),
    ("M3", "Shop:WebKit:Dev:apac:arm64", "Shop:WebKit Shop:WebKit:Dev:apac", DEFAULTS, "Shop:WebKit:Dev:apac"),
    ("M4", "Shop:WebKit:Dev:apac", "Shop:WebKit", DEFAULTS, "Shop:WebKit"),
    ("M5", "Shop:WebKit", "Shop:Firefox", DEFAULTS, None),
    ("M8", "Shop:WebKit:Dev:apac", "Shop:WebKit:Dev", TF_OFF, None),
    ("M9", "Crm:Firefox:Perf:emea", "Crm:Firefox:Perf:apac", DEFAULTS, None),
    ("M10", "Crm:Firefox", "Crm:Firefox:Perf:emea Crm:Firefox:Perf", DEFAULTS, "Crm:Firefox:Perf"),
    ("M11", "Crm:Firefox", "Crm:Firefox:Perf Crm:Firefox:Dev Crm:Firefox:perf", DEFAULTS, "Crm:Firefox:Dev"),
    ("M12", "Maps:Chromium", "Maps:Chromium:beta Maps:Chromium:Zeta", DEFAULTS, "Maps:Chromium:Zeta"),
    ("M13", "Maps:Chromium:Prod", "Maps:Chromium:Prod:win11 Maps:Chromium:Prod:win-10", DEFAULTS,
     "Maps:Chromium:Prod:win-10"),
    ("M14", "Maps:Chromium", "Maps:Chromium:A:B Maps:Chromium:Z", DEFAULTS, "Maps:Chromium:Z"),
    ("M15", "Pay:Firefox:Prod:emea", "Pay:Firefox:Prod:emea:arm64 Pay:Firefox", DEFAULTS, "Pay:Firefox"),
    ("M16", "Pay:Firefox:Prod:emea", "Pay:Firefox:Prod:emea:arm64 Pay:Firefox", TF_OFF, "Pay:Firefox:Prod:emea:arm64"),
    ("M17", "Pay:Firefox", "Pay:Firefox:Prod", PX_OFF, None),
    ("M18", "Pay:Chromium:Pro", "Pay:Chromium:Prod", DEFAULTS, None),
    ("M19", "Pay:Chromium:Prod", "Pay:Chromium Pay:Chromium:Prod:emea", {**TF_OFF, **PX_OFF}, None),
    ("M20", "Pay:Chromium:Prod", "", DEFAULTS, None),
    ("M21", "Crm:*:Perf", "Crm:WebKit:Perf Crm:Chromium:Dev", WC_ON, "Crm:WebKit:Perf"),
    ("M22", "*:Firefox:Dev", "Shop:Firefox:Dev Crm:Firefox:Dev", WC_ON, "Crm:Firefox:Dev"),
    ("M23", "*:Firefox:Dev:apac", "Shop:Firefox:Dev Crm:Firefox", WC_ON, "Shop:Firefox:Dev"),
    ("M24", "Crm:*", "Crm:WebKit:Perf:emea Crm:Firefox:Perf", WC_ON, "Crm:Firefox:Perf"),
    ("M25", "*:*:Prod", "Shop:WebKit:Prod:emea Pay:Chromium:Prod:apac", WC_ON, "Pay:Chromium:Prod:apac"),
    ("M26", "Pay:*:Prod", "Pay:Chromium Pay:Firefox:Prod:emea Pay:WebKit:Prod", WC_ON, "Pay:WebKit:Prod"),
    ("M27", "Crm:*:emea", "Crm:WebKit:Perf:emea", WC_ON, None),
    ("M28", "Crm:WebKit:*", "Crm:WebKit:Perf", DEFAULTS, None),
    ("M29", "Crm:WebKit:*", "Crm:WebKit:Perf Crm:WebKit", DEFAULTS, "Crm:WebKit"),
    ("M30", "Pay:Chromium:Prod", "Pay:Chromium:*", WC_ON, None),
    ("M31", "Pay:Chromium:Pr*", "Pay:Chromium:Prod", WC_ON, None),
    ("M32", "render:gpu-a100:batch:eu1", "render:gpu-a100 render:gpu-a100:batch", DEFAULTS, "render:gpu-a100:batch"),
    ("a wildcard falls back before it extends", "*:b:c", "a:b:c:d x:b", WC_ON, "x:b"),
    ("a wildcard may be the last segment", "a:b:*", "a:b:c:d a:b:z", WC_ON, "a:b:z"),
    ("a wildcard that fallback drops", "a:b:*", "a:b", WC_ON, "a:b"),
    ("a longer first segment is another one", "a:b", "ab:b:c aa:b a:bb:c", DEFAULTS, None),
    ("a pool of eight segments serves one of two", "a:b", "a:b:c:d:e:f:g:h", DEFAULTS, "a:b:c:d:e:f:g:h"),
    ("a segment beyond ASCII", "a:é:z", "a:é", DEFAULTS, "a:é"),
    ("code points order beyond ASCII", "a:b", "a:b:é a:b:z a:b:\U0001f600", DEFAULTS, "a:b:z"),
]  # fmt: skip


@pytest.mark.parametrize("way", ["over HTTP", "by another program"])
@pytest.mark.parametrize(("wanted", "pools", "options", "chosen"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
async def test_a_label_is_served_from_the_pool_that_the_matching_table_names(
    make_api, redis, way, wanted, pools, options, chosen
):
    async with make_api(**options) as api:
        slots = {pool: f"s{number}" for number, pool in enumerate(pools.split())}
        if way == "over HTTP":
            await publish(api, "n1", **{pool: [slot] for pool, slot in slots.items()})
        else:
            for pool, slot in slots.items():
                push(redis, pool, (slot, "n1"))
        answer = await borrow(api, wanted)
        if chosen is None:
            assert (answer.status_code, answer.json()["code"]) == (503, "no-capacity")
            assert not redis.keys("inuse:*")
            return
        lease = answer.json()
        assert (lease["matchedLabel"], lease["browserId"], lease["labelKey"]) == (chosen, slots[chosen], wanted)
        assert listed(redis, f"inuse:{chosen}") == [slots[chosen]]


WANTED = "Shop:WebKit:Dev:apac"
CAP = {"borrow_concurrency_caps": f"{WANTED}=3"}
COUNTED = [
    ("A1", "Shop:WebKit:Dev:apac 1/3 Shop:WebKit:Dev 5/0", {}, "Shop:WebKit:Dev:apac"),
    ("A2", "Shop:WebKit:Dev:apac 0/4 Shop:WebKit:Dev 5/0", {}, "Shop:WebKit:Dev"),
    ("A3", "Shop:WebKit:Dev:apac 0/4 Shop:WebKit:Dev 0/5 Shop:WebKit:Dev:apac:arm64 2/0", {},
     "Shop:WebKit:Dev:apac:arm64"),
    ("A4", "Shop:WebKit:Dev:apac 2/0/maintenance Shop:WebKit 1/0", {}, "Shop:WebKit"),
    ("A5", "Shop:WebKit:Dev:emea 9/0", {}, "no-capacity"),
    ("A6", "Shop:WebKit:Dev:apac 1/3 Shop:WebKit:Dev 5/0", CAP, "capped"),
]  # fmt: skip


@pytest.mark.parametrize(("pools", "options", "served"), [row[1:] for row in COUNTED], ids=[row[0] for row in COUNTED])
async def test_the_counts_of_free_slots_decide_which_pool_serves_a_borrow(make_api, redis, pools, options, served):
    words = pools.split()
    async with make_api(**options) as api:
        for number, (pool, counts) in enumerate(zip(words[::2], words[1::2], strict=True)):
            free, lent, *maintenance = counts.split("/")
            slots = [f"p{number}-{n}" for n in range(int(free) + int(lent))]
            await publish(api, f"n{number}", **{pool: slots})
            for _ in range(int(lent)):
                assert (await borrow(api, pool)).json()["matchedLabel"] == pool
            if maintenance:
                assert (await api.post(f"/admin/pools/{pool}/restart")).status_code == 200
        answer = await borrow(api, WANTED)
        if served in ("no-capacity", "capped"):
            assert (answer.status_code, answer.json()["code"]) == (503, served)
            assert int(answer.headers["retry-after"]) >= 1
        else:
            assert answer.json()["matchedLabel"] == served


async def test_a_borrow_that_finds_its_own_pool_empty_is_served_by_that_of_a_shorter_label(api, redis):
    push(redis, "a:b:c", ("s1", "n1"))
    push(redis, "a:b", ("s2", "n1"))
    served = [(await borrow(api, "a:b:c")).json().get("matchedLabel") for _ in range(3)]
    assert served == ["a:b:c", "a:b", None]


async def test_lists_whose_names_are_not_labels_are_neither_lent_from_nor_shown(api, redis):
    for name in ("available:", "available:a", "available:a::b", "available: a:b", "available:a:b c"):
        redis.rpush(name, '{"nodeId":"n1","browserId":"s1"}')
    assert (await borrow(api, "a:b")).json()["code"] == "no-capacity"
    assert len(redis.keys("available:*")) == 5
    assert (await api.get("/pools")).json()["total"] == 0
