"""Any sequence of what submitters, workers, operators, sweepers and accidents do to jobs with needs and limits."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from hub.capacity.models import LeaseHolder, slot_item
from hub.capacity.wishes import BundlePart, BundleWish
from tests.machine.direct import Direct
from tests.machine.jobs.steps import step
from tests.machine.jobs.term_look import Look
from tests.machine.jobs.term_model import ACTIVE, Limit, Model, Task
from tests.machine.records import TIMEOUT_MS

USER = "a" * 32
HUB = "h1"
HOLDER = LeaseHolder("ann", "ml", "worker", "127.0.0.1", USER).text
JOBS = ("r1:m:A", "r1:m:B", "r1:m:C")
NODES = {"n1": ("gpu:a", ("g1", "g2", "g3")), "n2": ("gpu:b", ("h1", "h2"))}
SLOTS_MS = 90_000
NEEDS: tuple[dict[str, int], ...] = ({}, {}, {"gpu:a": 1}, {"gpu:a": 2}, {"gpu:a": 1, "gpu:b": 1})
BY_C, BY_D = {"key": "c", "running": 1}, {"key": "d", "running": 1}
LIMITS: tuple[tuple[Limit, ...], ...] = (
    (), (BY_C,), (BY_C,), ({"key": "c", "running": 2}, {"running": 3}), ({"count": 2, "per_ms": 10_000},),
    ({"key": "c", "count": 1, "per_ms": 5_000}, {"running": 2}), (BY_C, BY_D), (BY_D, BY_C),
    ({"running": 1},),
)  # fmt: skip
jobs, which = st.sampled_from(JOBS), st.integers(0, 11)
needs, limits = st.sampled_from(NEEDS), st.sampled_from(LIMITS)
values = st.fixed_dictionaries({}, optional={"c": st.sampled_from("ab"), "d": st.sampled_from("xy")})


class TermsMachine(RuleBasedStateMachine):
    """Begins with two workers, two nodes and some tasks."""

    direct: ClassVar[Direct]
    steps: ClassVar[int] = 0

    @initialize(first=limits, second=limits, third=limits, wish=needs)
    def start(self, first: tuple[Limit, ...], second: tuple[Limit, ...], third: tuple[Limit, ...], wish: Any) -> None:
        self.direct.clear("110", 0, 0, {})
        self.redis, self.keys = self.direct.redis, self.direct.keys
        self.model = Model()
        self.made = self.asked = 0
        self.waits: dict[str, tuple[str, str, str]] = {}  # ticket -> worker, job, needs
        self.settled = False
        self.direct.tick(HUB)
        for node in NODES:
            self.do_publish(node)
        for job, wish_of, limits_of in zip(JOBS, (wish, {}, wish), (first, second, third), strict=True):
            self.do_register(job, wish_of, limits_of, "1")
            self.do_submit(job, 2, {"c": "a"})

    @property
    def now_ms(self) -> int:
        return int(self.redis.hget(self.keys.store, "clock_ms"))

    @invariant()
    def the_store_keeps_the_rules(self) -> None:
        if hasattr(self, "model"):
            wrong = list(Look(self.redis, self.model, self.now_ms).wrong(settled=self.settled))
            assert not wrong, "\n".join(wrong)

    def new_id(self) -> str:
        self.made += 1
        return f"{self.made:032x}"

    def call(self, name: str, /, **arguments: Any) -> Any:
        self.settled = False
        self.direct.tick(HUB)
        return self.direct.call(name, **arguments)

    def request(self) -> str:
        self.asked += 1
        return f"req{self.asked}"

    def pick(self, number: int, *statuses: str) -> Task | None:
        found = [t for t in self.model.tasks.values() if t.status in statuses]
        return found[number % len(found)] if found else None

    def worker(self, number: int) -> str:
        found = sorted(self.model.workers)
        return found[number % len(found)] if found else ""

    # -- nodes and leases

    def do_publish(self, node: str) -> None:
        label, slots = NODES[node]
        self.call(
            "nodes/register", id=node, part=node, apps="", capacity=1, labels="{}", base_url="", timeout_ms=TIMEOUT_MS,
            audit_new="{}", audit_old="{}", audit_max=10, incarnation="", said_term="", first=0, host="",
            token_ms=TIMEOUT_MS,
        )  # fmt: skip
        rest = [text for slot in slots for text in (slot, label, slot_item(node, slot, "kind", {}), *[""] * 12)]
        self.call(
            "capacity/publish", id=node, part=node, policy="reuse", ttl_ms=900_000, incarnation="", said_number="",
            says=0, classes_max=64, rest=rest,
        )  # fmt: skip

    @step(node=st.sampled_from(sorted(NODES)), back=st.booleans())
    def a_node_goes(self, node: str, back: bool) -> None:
        self.call("nodes/leave", id=node, part=node, limit=64, incarnation="")
        if back:
            self.do_publish(node)

    @step(node=st.sampled_from(sorted(NODES)))
    def a_node_comes(self, node: str) -> None:
        self.do_publish(node)

    @step(number=which, tells=st.booleans())
    def an_operator_ends_a_lease(self, number: int, tells: bool) -> None:
        lent = self.redis.zrange(self.keys.deadlines, 0, -1)
        if lent:
            self.give_back(lent[number % len(lent)], "", "operator", "1" if tells else "0")

    def give_back(self, slot: str, token: str, by: str, revokes: str) -> None:
        self.call(
            "capacity/give_back", slot=slot, hint="", token=token, run="", only_run=0, request=self.request(), keyed=0,
            keep_s=60, arrived_ms="", revokes=revokes, reason="", by=by,
        )  # fmt: skip

    @step(ms=st.sampled_from([1_000, 5_000, 10_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.direct.wait(ms)
        self.settled = False
        self.direct.tick(HUB)
        for worker in self.model.workers:
            self.call("workers/beat", rest=[worker, USER])

    @step(number=which)
    def a_worker_is_silent_until_its_leases_lapse(self, number: int) -> None:
        self.direct.wait(SLOTS_MS + 1)
        self.settled = False
        for worker in sorted(self.model.workers)[number % 4 :]:
            self.call("workers/beat", rest=[worker, USER])
        late = self.redis.zrange(self.keys.deadlines, "-inf", self.now_ms, byscore=True)
        if late:
            self.call("capacity/lapse", rest=late)

    # -- jobs and workers

    def do_register(self, job: str, wish: dict[str, int], limits: tuple[Limit, ...], worker: str) -> None:
        worker = f"{int(worker):032x}"
        parts = tuple(BundlePart(label, number=count) for label, count in wish.items())
        answer = self.call(
            "jobs/register", full=job, id=self.new_id(), schema="{}", digest="{}", worker=worker, user=USER,
            made_for="known" if worker in self.model.workers else "new", incarnation="", attempts=1, backoff_ms=1000,
            result_schema="", validate=0, needs=BundleWish(parts).text if parts else "",
            limits=json.dumps(limits) if limits else "",
        )  # fmt: skip
        assert answer[0] in ("created", "joined"), answer
        self.model.workers.setdefault(worker, set()).add(job)
        self.model.register(job, Counter(wish), limits)

    @step(job=jobs, wish=needs, said=limits, number=st.integers(1, 3), changes=st.booleans())
    def register(self, job: str, wish: dict[str, int], said: tuple[Limit, ...], number: int, changes: bool) -> None:
        known = self.model.jobs.get(job)
        if known and not changes:
            wish, said = dict(known.needs), known.limits
        self.do_register(job, wish, said, str(number))

    @step(number=which)
    def a_worker_goes(self, number: int) -> None:
        worker = self.worker(number)
        if worker:
            answer = self.call(
                "workers/remove", worker=worker, user=USER, superuser=1, why="deleted", silent_ms=-1, limit=64,
                request=self.request(), incarnation="",
            )  # fmt: skip
            assert answer == ["ok", 0]
            del self.model.workers[worker]
            for task in [t for t in self.model.active() if t.worker == worker]:
                self.model.fail(task)
                task.worker = ""

    # -- tasks

    def do_submit(self, job: str, count: int, said: dict[str, str], parent: str = "", **options: int) -> None:
        chosen = {"priority": 0, "attempts": 1, "backoff_ms": 0, **options}
        later = chosen.pop("later", 0)
        ids = [self.new_id() for _ in range(count)]
        answer = self.call(
            "tasks/submit", full=job, room="r1", user=USER, due_us=4 * 10**15 if later else 0, key="", fingerprint="",
            keep_s=9, unique="", after=f"fail,{parent}" if parent else "", checked="", told=0, later=0, silence_ms=0,
            rest=[text for name in ids for text in (name, json.dumps(said))], **chosen,
        )  # fmt: skip
        if answer == ["job"]:
            assert not any(job in served for served in self.model.workers.values())
            return
        assert answer[0] == "ok", answer
        for reply in answer[1:]:
            task = Task(reply[0], job, int(reply[4]), said, chosen["priority"], chosen["attempts"])
            task.backoff_ms, task.later, task.parent = chosen["backoff_ms"], bool(later), parent
            self.model.tasks[task.id] = task

    @step(job=jobs, said=values, count=st.integers(1, 3), priority=st.sampled_from([0, 0, 30, -30]),
          attempts=st.sampled_from([1, 2, 3]), backoff_ms=st.sampled_from([0, 3_600_000]),
          later=st.sampled_from([0, 0, 0, 1]))  # fmt: skip
    def submit(self, job: str, said: dict[str, str], count: int, **options: int) -> None:
        if len(self.model.tasks) < 30:
            self.do_submit(job, count, said, **options)

    @step(job=jobs, said=values, number=which)
    def submit_what_waits_for_another(self, job: str, said: dict[str, str], number: int) -> None:
        parent = self.pick(number, "pending", *ACTIVE)
        if parent and len(self.model.tasks) < 30:
            self.do_submit(job, 1, said, parent.id)

    def do_claim(self, worker: str, most: int, *, start: bool = True, final: int = 1, bundle: str = "", job: str = "",
                 holder: str = HOLDER) -> Any:  # fmt: skip
        before = {name: set(record) for name, record in self.model.workers.items()}
        while True:
            answer = self.call(
                "tasks/claim", worker=worker, user=USER, most=most, start=int(start), runtime_ms=0,
                request=self.request(), keyed=0, final=final, incarnation="", holder=holder, slots_ms=SLOTS_MS,
                bundle=bundle, job=job,
            )  # fmt: skip
            if answer != ["again"]:
                break
        assert answer[0] in ("ok", "lacking"), answer
        for reply in answer[1:] if answer[0] == "ok" else ():
            task = self.model.tasks[reply[0]]
            may_be = task.status == "pending" and not task.later and not task.parent
            assert may_be, f"{task} was claimed twice, or while it waited"
            assert task.job in before[worker]
            assert holder or not self.model.jobs[task.job].needs, f"{task} was claimed by one that may not borrow"
            self.model.claim(task, worker, start=start, now_ms=self.now_ms)
        return answer

    @step(number=which, most=st.sampled_from([1, 1, 2, 5]), start=st.sampled_from([True, True, False]),
          borrows=st.sampled_from([True, True, True, False]))  # fmt: skip
    def claim(self, number: int, most: int, start: bool, borrows: bool) -> None:
        if worker := self.worker(number):
            self.do_claim(worker, most, start=start, holder=HOLDER if borrows else "")

    def ask_for_slots(self, ticket: str, wish: str, *, repeated: int) -> Any:
        return self.call(
            "capacity/borrow_all", bundle=wish, ttl_ms=SLOTS_MS, idle_ms=0, run=ticket, holder=HOLDER, request=ticket,
            attempt=f"{ticket}-try", fingerprint="f", keep_s=600, keyed=1, repeated=repeated, hub=HUB, wait_ms=600_000,
            limit_ms=-1, priority=0, max_label=100, max_run=100, hopes=1,
        )  # fmt: skip

    @step(number=which)
    def a_claim_waits_for_slots(self, number: int) -> None:
        if worker := self.worker(number):
            self.a_claim_waits(worker)

    def a_claim_waits(self, worker: str) -> None:
        word, *said = self.do_claim(worker, 1, final=0)
        if word == "lacking":
            job, wish, ticket = said
            if self.ask_for_slots(ticket, wish, repeated=0)[0] in ("waiting", "ok"):
                self.waits[ticket] = worker, job, wish

    @step(number=which, gives_up=st.sampled_from([False, False, False, True]), makes_room=st.booleans())
    def slots_come(self, number: int, gives_up: bool, makes_room: bool) -> None:
        if not self.waits:
            return
        ticket = sorted(self.waits)[number % len(self.waits)]
        if gives_up:
            self.call("capacity/undo", request=ticket, attempt=f"{ticket}-try", hub=HUB, why="gone")
            del self.waits[ticket]
            return
        for task in self.model.active() if makes_room else ():
            self.do_cancel(task)
        self.serve(ticket)

    def serve(self, ticket: str) -> None:
        """Ask again for what a claim waits for, and claim with it."""
        worker, job, wish = self.waits[ticket]
        word, *said = self.ask_for_slots(ticket, wish, repeated=1)
        if word != "waiting":
            del self.waits[ticket]
        if word == "ok" and worker in self.model.workers:
            self.do_claim(worker, 1, bundle=said[0], job=job)
        elif word == "ok":
            self.call("capacity/return_bundle", bundle=said[0], by="operator")

    @step(job=jobs, said=values)
    def a_worker_is_served_when_another_has_ended(self, job: str, said: dict[str, str]) -> None:
        """It waits for the only slots of their kind."""
        if len(self.model.tasks) < 28:
            self.do_register(job, {"gpu:b": 2}, (), "1")
            self.do_submit(job, 2, said)
            first, second = f"{1:032x}", sorted(self.model.workers)[-1]
            self.do_claim(first, 9)
            self.a_claim_waits(second)
            for task in self.model.active(job)[:1]:
                self.do_cancel(task)
            for ticket in sorted(self.waits):
                self.serve(ticket)

    @step(number=which, status=st.sampled_from(["completed", "completed", "failed", "cancelled", "pending"]))
    def a_worker_reports(self, number: int, status: str) -> None:
        task = self.pick(number, *ACTIVE)
        if task is None:
            return
        rest = [task.id, status, "no", "", ""]
        (word,) = self.call("tasks/finish", worker=task.worker, user=USER, request=self.request(), rest=rest)
        if task.status == "claimed" and status == "completed":
            assert word == "conflict"
            return
        assert word == "ok"
        if status == "pending":
            self.model.give_back(task)
        elif status == "failed":
            self.model.fail(task)
        else:
            self.model.end(task, status)

    @step(number=which)
    def a_worker_starts_what_it_has_claimed(self, number: int) -> None:
        task = self.pick(number, "claimed")
        if task:
            rest = [task.id, "running", "", "", ""]
            assert self.call("tasks/finish", worker=task.worker, user=USER, request=self.request(), rest=rest) == ["ok"]
            task.status = "running"

    @step(number=which)
    def somebody_cancels(self, number: int) -> None:
        task = self.pick(number, "pending", *ACTIVE)
        if task:
            self.do_cancel(task)

    def do_cancel(self, task: Task) -> None:
        self.call(
            "tasks/move", id=task.id, status="cancelled", error="", user=USER, superuser=1, request=self.request(),
            claim="", result="",
        )  # fmt: skip
        self.model.end(task, "cancelled")

    @step(most=st.sampled_from([0, 1]))
    def what_was_not_started_is_taken_back(self, most: int) -> None:
        stuck = [t for t in self.model.active() if t.status == "claimed" and self.now_ms - t.claimed_ms > 20_000]
        if stuck:
            answer = self.call(
                "tasks/unstick", threshold_ms=20_000, most=most, error="stuck", rest=[t.id for t in stuck]
            )
            for task, word in zip(stuck, answer, strict=True):
                assert word in (1, 2)
                self.model.give_back(task) if word == 1 else self.model.end(task, "failed")

    @step()
    def a_hub_looks_at_what_is_due(self) -> None:
        lost = {loss.split("|")[1] for loss in self.redis.lrange(self.keys.slot_losses, 0, -1)}
        hit = [t for t in self.model.active() if self.redis.hget(self.keys.task(t.id), "slots") in lost]
        _, failed, _ = self.call("tasks/fail_slotless", limit=100)
        assert failed == len(hit)
        for task in hit:
            self.model.fail(task)
            task.worker = ""
        self.call("tasks/let_in", limit=100)
        self.settled = True

    @step()
    def ended_tasks_are_forgotten(self) -> None:
        if len(self.model.tasks) >= 20:
            self.call("tasks/forget", keep_us=-10_000_000, limit=100)
            for name in [t.id for t in self.model.tasks.values() if t.status not in (*ACTIVE, "pending")]:
                del self.model.tasks[name]
            for job in self.model.jobs.values():
                job.starts = [(at, t) for at, t in job.starts if at + 20_000 > self.now_ms]

    # -- the end

    def teardown(self) -> None:
        """All that can run runs, and then nothing is lent, kept or counted."""
        if not hasattr(self, "model"):
            return
        for ticket in [*self.waits]:
            self.call("capacity/undo", request=ticket, attempt=f"{ticket}-try", hub=HUB, why="gone")
        self.waits.clear()
        for node in NODES:
            self.do_publish(node)
        for job, known in [*self.model.jobs.items()]:
            self.do_register(job, dict(known.needs), known.limits, "1")
        for _ in range(80):
            for task in [*self.model.active()]:
                self.do_cancel(task)
            self.direct.wait(11_000)
            self.call("tasks/fail_slotless", limit=100)
            self.call("tasks/let_in", limit=100)
            self.redis.delete(self.keys.revoked)  # the grace of those who may still believe in a lease is over
            self.do_claim(f"{1:032x}", 100)
            self.settled = False
            self.the_store_keeps_the_rules()
            waiting = [t for t in self.model.tasks.values() if t.status == "pending" and not (t.later or t.parent)]
            if not waiting and not self.model.active():
                break
        assert not waiting, f"{waiting} never run"
        left = [*self.redis.zrange(self.keys.deadlines, 0, -1)]
        left += [key for name in ("taken", "held") for key in self.redis.keys(f"hub:limit_{name}:*")]
        left += self.redis.keys("hub:limited:*")
        assert not left, f"{left} is left"
