"""More labels than one call may put right: turns that are listed must be the true ones from the beginning."""

import json

from hub.capacity.models import slot_item
from hub.capacity.where import parse
from tests.machine.direct import Direct

LABELS = [f"gpu:a:{number:03}" for number in range(450)]
BIG = parse("vram >= 40")


def test_a_freed_slot_goes_to_the_first_of_hundreds_of_labels_whatever_their_names(redis_server):
    direct = Direct(redis_server)
    direct.clear("110", 0, 0, {})
    direct.tick("h1")
    direct.call(
        "nodes/register", id="n", part="n", apps="", capacity=1, labels="{}", base_url="", timeout_ms=60_000,
        audit_new="{}", audit_old="{}", audit_max=10, incarnation="", said_term="", first="", host="", token_ms=60_000,
    )  # fmt: skip
    told = ("s1", "gpu:a", slot_item("n", "s1", "", {}), *[""] * 10, '{"vram":80}', "")
    direct.call(
        "capacity/publish", id="n", part="n", policy="reuse", ttl_ms=1000, incarnation="", said_number="", says="",
        classes_max=64, rest=told,
    )  # fmt: skip
    for label in ("gpu:a", *reversed(LABELS)):
        wants = json.dumps([[label, BIG.want, BIG.tree, BIG.text]])
        answer = direct.call(
            "capacity/borrow", label=label, alternatives=wants, prefer="",
            ttl_ms=1000, idle_ms=0, run="r", holder="", request=label, attempt=label, fingerprint="f", keep_s=60,
            keyed="", repeated="", hub="h1", wait_ms=60_000, limit_ms=-1, priority=0, max_label=9, max_run=999,
        )  # fmt: skip
        assert answer[0] == ("ok" if label == "gpu:a" else "waiting")
    direct.call(
        "capacity/give_back", slot="s1", hint="gpu:a", token=direct.redis.hget(direct.keys.session("s1"), "leaseToken"),
        run="", only_run="", request="back", keyed="", keep_s=60, arrived_ms="", revokes="", reason="", by="operator",
    )  # fmt: skip
    lent = direct.redis.hget(direct.keys.session("s1"), "labelKey")
    direct.close()
    assert lent == LABELS[-1]
