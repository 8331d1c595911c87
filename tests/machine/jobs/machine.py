"""Any sequence of what submitters, workers, operators, sweepers and accidents do to jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from tests.machine.direct import Direct
from tests.machine.jobs.look import said, seen
from tests.machine.jobs.model import ACTIVE, MOVES, Job, Model, Task, Worker
from tests.machine.jobs.schedules import JOBS, USERS, ScheduleSteps
from tests.machine.jobs.steps import step
from tests.machine.records import TIMEOUT_MS

SILENCE_MS = 500
RESULT = '{"n":1.0}'
ROOMS = ("r1", "r2", "@global")
STATUSES = ("claimed", "running", "running", "completed", "completed", "failed", "failed", "cancelled", "pending")
SCHEMAS = st.sampled_from(["{}", "{}", '{"a":1}'])
CHECKED = st.sampled_from(["", '{"a":1}', '{"a":2}'])  # the schema that the payloads were found to fit
users, names, rooms, which = st.sampled_from(USERS), st.sampled_from(JOBS), st.sampled_from(ROOMS), st.integers(0, 11)


class JobsMachine(ScheduleSteps, RuleBasedStateMachine):
    """Begins with two workers on some jobs, and tasks that wait for them."""

    direct: ClassVar[Direct]
    steps: ClassVar[int] = 0

    @initialize(first=st.lists(names, min_size=1, max_size=3), second=st.lists(names, min_size=1, max_size=3))
    def start(self, first: list[str], second: list[str]) -> None:
        self.direct.clear("110", 0, 0, {})
        self.redis, self.keys = self.direct.redis, self.direct.keys
        self.model = Model(int(self.redis.hget(self.keys.store, "clock_ms")))
        self.made = self.asked = 0
        self.twice = False
        for user, jobs in zip(USERS, (first, second), strict=True):
            worker = self.new_id()
            for full in jobs:
                self.do_register(full, "{}", worker, user, new_worker=True)
        for number, full in enumerate((*first, *second)):
            self.do_submit(full, "r1", USERS[0], 1, attempts=2, backoff_ms=0 if number % 2 else 3_600_000)
            self.do_submit(full, "r2", USERS[1], 1, later=number % 2)

    @invariant()
    def the_store_says_what_the_rules_say(self) -> None:
        if hasattr(self, "model"):
            found, wanted = seen(self.redis), said(self.model)
            wrong = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
            assert not wrong, f"found, wanted: {wrong}"

    def new_id(self) -> str:
        self.made += 1
        return f"{self.made:032x}"

    def call(self, name: str, /, *, repeats: bool = True, **arguments: Any) -> Any:
        """Return the answer of a script. What may be repeated is sometimes sent twice, and answers the same."""
        answer = self.direct.call(name, **arguments)
        if repeats and self.twice:
            again = self.direct.call(name, **arguments)
            assert again == answer, f"{name} answered {answer}, and when repeated {again}"
        return answer

    def request(self) -> str:
        self.asked += 1
        return f"req{self.asked}"

    def worker(self, number: int) -> str | None:
        workers = sorted(self.model.workers)
        return workers[number % len(workers)] if workers else None

    def task(self, number: int, *statuses: str) -> Task | None:
        found = [t for t in self.model.tasks.values() if not statuses or t.status in statuses]
        return found[number % len(found)] if found else None

    @step(on=st.booleans())
    def calls_are_repeated(self, on: bool) -> None:
        self.twice = on

    # -- jobs and workers -----------------------------------------------------------------------------------------

    def do_register(
        self, full: str, schema: str, worker: str, user: str, *, new_worker: bool, validate: bool = False
    ) -> None:  # fmt: skip
        new_job = self.new_id()
        answer = self.call(
            "jobs/register", full=full, id=new_job, schema=schema, digest=schema, worker=worker, user=user,
            made_for="new" if new_worker else "known", incarnation="", attempts=1, backoff_ms=1000,
            result_schema="", validate=int(validate), needs="", limits="",
        )  # fmt: skip
        assert answer[0] == self.model.register(full, new_job, schema, worker, user, new_worker, validate)
        if answer[0] in ("created", "joined"):
            assert [answer[1], answer[2]] == [self.model.jobs[full].id, worker]
            assert set(answer[3]) == self.model.workers_of(full)

    @step(full=names, schema=SCHEMAS, user=users, number=which, new=st.booleans(),
          validate=st.booleans())  # fmt: skip
    def register(self, full: str, schema: str, user: str, number: int, new: bool, validate: bool) -> None:
        worker = self.new_id() if new and len(self.model.workers) < 5 else self.worker(number)
        if worker is not None:
            is_new = worker not in self.model.workers
            self.do_register(full, schema, worker, user, new_worker=is_new, validate=validate)

    @step(user=users)
    def register_for_a_stranger(self, user: str) -> None:
        self.do_register(JOBS[0], "{}", "f" * 32, user, new_worker=False)

    @step(user=users)
    def create(self, user: str) -> None:
        if len(self.model.workers) < 5:
            worker = self.new_id()
            assert self.call("workers/create", worker=worker, user=user)[0] == "ok"
            self.model.workers[worker] = Worker(user, self.model.clock_ms)

    @step(number=which, user=users)
    def beat(self, number: int, user: str) -> None:
        worker = self.worker(number) or "f" * 32
        [answer] = self.call("workers/beat", repeats=False, rest=[worker, user])
        known = self.model.workers.get(worker)
        if known is None or known.user != user:
            assert answer == (0 if known is None else 1)
        else:
            assert int(answer) > 1
            known.beat_ms = self.model.clock_ms

    @step(ms=st.sampled_from([1_000, TIMEOUT_MS // 2, TIMEOUT_MS]))
    def time_passes(self, ms: int) -> None:
        self.direct.wait(ms)
        self.model.clock_ms += ms

    @step(number=which, user=users, superuser=st.booleans(), silent=st.booleans(), limit=st.sampled_from([1, 64]))
    def remove(self, number: int, user: str, superuser: bool, silent: bool, limit: int) -> None:
        worker = self.worker(number)
        if worker is None:
            return
        known = self.model.workers[worker]
        answer = self.call(
            "workers/remove", repeats=False, worker=worker, user=user, superuser=int(superuser), why="silent",
            silent_ms=TIMEOUT_MS if silent else -1, limit=limit, request=self.request(),
            incarnation="",
        )  # fmt: skip
        if not superuser and known.user != user:
            assert answer == ["forbidden"]
        elif silent and self.model.clock_ms - known.beat_ms <= TIMEOUT_MS:
            assert answer == ["alive"]
        else:
            self.model.remove(worker)
            self.tasks_fail(worker, limit, answer)

    def tasks_fail(self, worker: str, limit: int, answer: list[Any]) -> None:
        """Fail as many of its tasks as a batch holds; Redis picks which."""
        held = self.model.held.get(worker, set())
        left = self.redis.smembers(self.keys.worker_tasks(worker))
        assert answer == ["ok", len(left)]
        assert len(left) == max(0, len(held) - limit)
        for name in sorted(held - left, key=lambda name: self.redis.hget(self.keys.task(name), "at")):
            task = self.model.tasks[name]
            self.model.fail(task, "Worker disconnected")
            task.worker = None
        if not left:
            self.model.end_leaving(worker)

    @step(full=names, user=users, room=rooms, wanted=st.booleans())
    def a_worker_goes_whose_tasks_may_be_tried_again(self, full: str, user: str, room: str, wanted: bool) -> None:
        """Remove a worker, often the last one of its job. Its tasks fail in batches; one may be cancelled."""
        if len(self.model.workers) < 5 and len(self.model.tasks) < 24:
            worker = self.new_id()
            self.do_register(full, "{}", worker, user, new_worker=True)
            if worker in self.model.workers:
                self.do_submit(full, room, user, 2, attempts=3, backoff_ms=3_600_000)
                last = sorted(self.model.workers).index(worker)
                self.claim(number=last, user=user, most=5, start=False, keyed=False, runtime_ms=0)
                self.remove(number=last, user=user, superuser=True, silent=False, limit=1)
                for task in [t for t in self.model.tasks.values() if t.job == full and t.status == "pending"]:
                    if not wanted:
                        self.do_move(task, "cancelled", "", user, superuser=True)
                self.bury(number=0, limit=64)

    @step(user=users, most=st.sampled_from([1, 2, 5]))
    def a_worker_of_many_jobs_claims(self, user: str, most: int) -> None:
        """It finds the oldest tasks by the first ones of all queues, and they are not all in one."""
        if len(self.model.workers) < 5 and len(self.model.tasks) < 22:
            worker, some = self.new_id(), (JOBS[0], JOBS[1], JOBS[3])
            for full in some:
                self.do_register(full, "{}", worker, user, new_worker=worker not in self.model.workers)
            if worker in self.model.workers:
                for full in (*some, some[0]):
                    self.do_submit(full, "r1", user, 1)
                last = sorted(self.model.workers).index(worker)
                self.claim(number=last, user=user, most=most, start=True, keyed=False, runtime_ms=0)

    @step(number=which, limit=st.sampled_from([1, 64]))
    def bury(self, number: int, limit: int) -> None:
        leaving = sorted(self.model.leaving)
        if leaving:
            worker = leaving[number % len(leaving)]
            answer = self.call("workers/bury", repeats=False, worker=worker, limit=limit)
            self.tasks_fail(worker, limit, answer)

    # -- tasks ----------------------------------------------------------------------------------------------------

    def do_submit(
        self, full: str, room: str, user: str, count: int, unique: str = "", after: str = "", checked: str = "",
        **options: int,
    ) -> None:  # fmt: skip
        chosen = {"priority": 0, "attempts": 1, "backoff_ms": 1000, **options}
        later = bool(chosen.pop("later", 0))
        chosen["silence_ms"] = SILENCE_MS if chosen["priority"] > 0 else 0
        ids = [self.new_id() for _ in range(count)]
        payloads = ["{}" if number % 2 else '{"n":1.0}' for number in range(count)]
        rest = [text for pair in zip(ids, payloads, strict=True) for text in pair]
        answer = self.call(
            "tasks/submit", full=full, room=room, user=user, due_us=4 * 10**15 if later else 0,
            key="", fingerprint="", keep_s=9, unique=unique, after=after, checked=checked, told=0, later=0,
            rest=rest, **chosen,
        )  # fmt: skip
        job = self.model.jobs.get(full)
        if job is None or job.deleted:
            assert answer == ["job"]
            return
        if job.validates and checked != job.schema:
            assert answer == ["check"]
            return
        assert answer[0] == "ok"
        stood = self.model.tasks.get(self.model.uniques.get(unique.partition(":")[0], ""))
        if stood is not None:
            assert [reply[0] for reply in answer[1:]] == [stood.id]
            return
        for reply, payload in zip(answer[1:], payloads, strict=True):
            task = Task(reply[0], full, room, user, int(reply[4]), payload, chosen["attempts"], chosen["priority"])
            task.backoff_ms, task.later, task.silence_ms = chosen["backoff_ms"], later, chosen["silence_ms"]
            self.model.tasks[task.id] = task
            task.run, parents = after.startswith("run"), [self.model.tasks[id] for id in after.split(",")[1:]]
            failed = [t for t in parents if t.status in ("failed", "cancelled") and not task.run]
            task.after = {t.id for t in parents if t.status in (*ACTIVE, "pending")}
            if failed:
                self.model.close(task, "failed", f"{failed[0].id} {failed[0].status}")
            if unique:
                task.unique = unique
                self.model.uniques[unique.partition(":")[0]] = task.id
        if not self.twice:
            places = {task.id: place for place, task in enumerate(self.model.queue(full), 1)}
            assert [reply[15] for reply in answer[1:]][-1:] == [places.get(ids[-1], "")]

    @step(full=names, room=rooms, user=users, count=st.integers(1, 3), later=st.sampled_from([0, 0, 0, 1]),
          priority=st.sampled_from([0, 0, 0, 3, -3]), attempts=st.sampled_from([1, 1, 2, 3]),
          backoff_ms=st.sampled_from([0, 3_600_000]), checked=CHECKED)  # fmt: skip
    def submit(self, full: str, room: str, user: str, count: int, checked: str, **options: int) -> None:
        if len(self.model.tasks) < 25:
            self.do_submit(full, room, user, count, checked=checked, **options)

    @step(full=names, user=users, later=st.booleans(), window_us=st.sampled_from([0, 10**15]))
    def submit_what_there_is_once(self, full: str, user: str, later: bool, window_us: int) -> None:
        if len(self.model.tasks) < 25:
            unique = f"{JOBS.index(full):032x}:{window_us}"
            self.do_submit(full, "r1", user, 1, unique, later=later, attempts=2, backoff_ms=3_600_000)

    @step(full=names, user=users, some=st.lists(which, min_size=1, max_size=3), later=st.booleans(), run=st.booleans())
    def submit_what_waits_for_others(self, full: str, user: str, some: list[int], later: bool, run: bool) -> None:
        parents = dict.fromkeys(task.id for number in some if (task := self.task(number)))
        if parents and len(self.model.tasks) < 25:
            self.do_submit(full, "r2", user, 1, after=",".join(("run" if run else "fail", *parents)), later=later)

    @step(number=which, user=users, most=st.sampled_from([1, 1, 2, 5]), start=st.booleans(), keyed=st.booleans(),
          runtime_ms=st.sampled_from([0, 0, TIMEOUT_MS]))  # fmt: skip
    def claim(self, number: int, user: str, most: int, start: bool, keyed: bool, runtime_ms: int) -> None:
        worker = self.worker(number)
        if worker is None:
            return
        answer = self.call(
            "tasks/claim", worker=worker, user=user, most=most, start=int(start), runtime_ms=runtime_ms,
            request=self.request(), keyed=int(keyed), final=1, incarnation="", holder="", slots_ms=0, bundle="",
            job="",
        )  # fmt: skip
        if self.model.workers[worker].user != user:
            assert answer == ["forbidden"]
            return
        taken = self.model.claim(worker, most, start=start, runtime_ms=runtime_ms)
        assert [[reply[0], reply[3], reply[8]] for reply in answer[1:]] == [[t.id, t.status, worker] for t in taken]

    @step(number=which, status=st.sampled_from(STATUSES[:-1]), user=users, superuser=st.booleans(), live=st.booleans(),
          error=st.sampled_from(["", "oh"]))  # fmt: skip
    def move(self, number: int, status: str, user: str, superuser: bool, live: bool, error: str) -> None:
        task = self.task(number, *ACTIVE) if live else self.task(number)
        if task is None:
            return
        if live and task.worker in self.model.workers:
            user = self.model.workers[task.worker].user
        self.do_move(task, status, error, user, superuser=superuser)

    def do_move(self, task: Task, status: str, error: str, user: str, *, superuser: bool) -> None:
        answer = self.call(
            "tasks/move", id=task.id, status=status, error=error, user=user, superuser=int(superuser),
            request=self.request(), claim="", result=f'"{error}"',
        )  # fmt: skip
        if not self.model.may_move(task, status, user, superuser=superuser):
            late = status not in ("claimed", "cancelled") and task.had == user
            assert answer == (["conflict", task.status] if late else ["forbidden"])
        elif status not in MOVES.get(task.status, ()):
            assert answer == ["conflict", task.status]
        else:
            self.model.move(task, status, error, f'"{error}"')
            assert (answer[0], answer[1][3]) == ("ok", task.status)

    @step(number=which, user=users, results=st.lists(st.tuples(which, st.sampled_from(STATUSES)), max_size=4))
    def finish(self, number: int, user: str, results: list[tuple[int, str]]) -> None:
        worker = self.worker(number)
        chosen = {t.id: (t, status) for which, status in results if (t := self.task(which, *ACTIVE)) is not None}
        if worker is None or any(status in ("claimed",) for _, status in chosen.values()):
            return
        rest = [text for task, status in chosen.values() for text in (task.id, status, "no", "", RESULT)]
        answer = self.call("tasks/finish", worker=worker, user=user, request=self.request(), rest=rest)
        if self.model.workers[worker].user != user:
            assert answer == ["owner"]
            return
        jobs = set()
        for (task, status), word in zip(chosen.values(), answer, strict=True):
            assert word == self.outcome(task, status, worker)
            if word == "ok" and status == "pending":
                self.model.give_back(task)
            elif word == "ok" and status == "running":
                task.status, task.started = status, True
                self.model.hear(task)
            elif word == "ok":
                jobs.add(task.job)
                self.model.fail(task, "no") if status == "failed" else self.model.close(task, status, "no", RESULT)
        for full in jobs:
            self.model.check_orphan(full)

    def outcome(self, task: Task, status: str, worker: str) -> str:
        if task.worker != worker:
            return "forbidden" if task.worker else "conflict"
        wrong = {"running": "running", "claimed": "completed"}
        return "conflict" if wrong[task.status] == status else "ok"

    @step(
        number=which,
        user=users,
        which=which,
        share=st.sampled_from(["", "0.5"]),
        texts=st.sampled_from(["", "a\nb"]),
    )
    def progress(self, number: int, user: str, which: int, share: str, texts: str) -> None:
        worker, task = self.worker(number), self.task(which, *ACTIVE)
        if worker is None or task is None:
            return
        rest = [task.id, "", share, "so", texts]
        answer = self.call("tasks/progress", worker=worker, user=user, request=self.request(), rest=rest)
        if self.model.workers[worker].user != user:
            assert answer == ["owner"]
        elif task.worker != worker:
            assert answer == ["forbidden" if task.worker else "conflict"]
        elif task.status != "running":
            assert answer == ["conflict"]
        else:
            assert answer == ["ok"]
            self.model.hear(task)
            task.log = [*task.log, *texts.split()][-100:]

    @step(number=which)
    def a_task_fails(self, number: int) -> None:
        task = self.task(number, *ACTIVE)
        if task is not None:
            self.do_move(task, "failed", "oh", USERS[0], superuser=True)

    @step(number=which, user=users)
    def somebody_cancels_what_waits(self, number: int, user: str) -> None:
        task = self.task(number, "pending")
        if task is not None:
            self.do_move(task, "cancelled", "", user, superuser=False)

    @step(number=which)
    def a_time_comes(self, number: int) -> None:
        """Let tasks that were put off be due."""
        later = sorted(t.id for t in self.model.tasks.values() if t.later and not t.after)
        if later:
            name = later[number % len(later)]
            self.redis.zadd(self.keys.later, {name: 1})
            assert self.call("tasks/let_in", repeats=False, limit=5) == ["ok", 1]
            self.model.tasks[name].later = False

    @step(kind=st.sampled_from(["ownerless", "runtime", "silent"]), limit=st.sampled_from([1, 50]))
    def overdue(self, kind: str, limit: int) -> None:
        places, age_ms, error = self.model.ownerless, TIMEOUT_MS, "Worker disconnected"
        if kind == "runtime":
            places, age_ms, error = self.model.runtimes, 0, "Runtime exceeded"
        if kind == "silent":
            places, age_ms, error = self.model.silences, 0, "No progress for longer than maxSilenceSeconds (0.5)"
        late = self.model.overdue(places, age_ms, limit)
        answer = self.call("tasks/overdue", repeats=False, kind=kind, age_ms=age_ms, limit=limit)
        assert answer[:2] == ["ok", len(late)]
        for task in late:
            self.model.fail(task, error)
            self.model.check_orphan(task.job)

    @step(kind=st.sampled_from(["ownerless", "runtime", "silent"]), more_ms=st.sampled_from([0, 500]))
    def the_time_of_a_task_is_over(self, kind: str, more_ms: int) -> None:
        """Just now, or a moment ago."""
        ends = {
            "ownerless": [since + TIMEOUT_MS for since in self.model.ownerless.values()],
            "runtime": list(self.model.runtimes.values()),
            "silent": list(self.model.silences.values()),
        }[kind]
        if ends:
            self.time_passes(ms=max(0, min(ends) - self.model.clock_ms) + more_ms)
            self.overdue(kind=kind, limit=50)

    @step(
        number=which,
        ms=st.sampled_from([0, 1_000]),
        age_ms=st.sampled_from([0, 1_000]),
        most=st.sampled_from([0, 1, 1]),
    )
    def time_passes_and_what_nobody_started_waits_again(self, number: int, ms: int, age_ms: int, most: int) -> None:
        self.direct.wait(ms)
        self.model.clock_ms += ms
        names = sorted(self.model.tasks)[number % 3 :]
        answer = self.call("tasks/unstick", repeats=False, threshold_ms=age_ms, most=most, error="late", rest=names)
        assert answer == self.model.unstick(names, age_ms, most, "late")

    @step(number=which, user=users)
    def a_worker_claims_and_starts_nothing(self, number: int, user: str) -> None:
        for _ in range(2):
            self.claim(number=number, user=user, most=1, start=False, keyed=False, runtime_ms=0)
            self.time_passes_and_what_nobody_started_waits_again(number=0, ms=1_000, age_ms=0, most=1)

    @step(number=which, user=users, superuser=st.booleans())
    def again(self, number: int, user: str, superuser: bool) -> None:
        old = self.task(number, "failed", "cancelled", "completed")
        if old is None:
            return
        new = self.new_id()
        answer = self.call("tasks/again", id=old.id, new=new, user=user, superuser=int(superuser), told=0)
        job: Job = self.model.jobs[old.job]
        if not superuser and old.user != user:
            assert answer == ["forbidden"]
        elif old.status == "completed":
            assert answer == ["conflict", "completed"]
        elif job.deleted:
            assert answer == ["job", old.job]
        else:
            assert answer[0] == "ok"
            task = Task(new, old.job, old.room, user, int(answer[1][4]), old.payload, old.max, old.prio, old.backoff_ms)
            task.silence_ms = old.silence_ms
            self.model.tasks[new] = task
            self.model.dead.discard(old.id)

    @step()
    def forget(self) -> None:
        if len(self.model.tasks) <= 15:  # no precondition: which tasks Redis picks to fail must not steer what is drawn
            return
        ended = sum(t.status not in (*ACTIVE, "pending") for t in self.model.tasks.values())
        answer = self.call("tasks/forget", repeats=False, keep_us=0, limit=1000)
        assert answer[:2] == ["ok", ended]
        self.model.forget()
