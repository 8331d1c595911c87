"""Steps of people and two hubs with schedules, also with one that has changed since a hub looked at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.machine.jobs.model import Model, Schedule
from tests.machine.jobs.steps import step

USERS = ("u" * 32, "v" * 32)
JOBS = ("r1:m:A", "r1:m:B", "r2:m:A", "@global:m:C", "@global:m:D")
NAMES, MOST = ("r1:s", "r1:t", "r2:s"), 2
RULES = (("", "60000", "UTC"), ("* * * * *", "", "UTC"), ("* * * * *", "", "Europe/Berlin"))
FAR = 4 * 10**15
DUE = ("1", "1", "2", str(FAR), "")  # in microseconds of Redis: long over, not for long, never
users, names, due, hubs = st.sampled_from(USERS), st.sampled_from(NAMES), st.sampled_from(DUE), st.integers(0, 1)


@dataclass
class Looked:
    """The schedules that are due as a hub has read them, to work out their times."""

    due: list[dict[str, str]] = field(default_factory=list)


class ScheduleSteps:
    """The steps of the machine about schedules; store and model are those of the whole machine."""

    model: Model
    redis: Any
    keys: Any
    call: Any
    new_id: Any
    direct: Any
    twice: bool

    def hub(self, number: int) -> Looked:
        return self.model.hubs.setdefault(number, Looked())

    @step(name=names, user=users, superuser=st.sampled_from([False, False, True]), job=st.sampled_from(JOBS),
          rule=st.sampled_from(RULES), catch_up=st.sampled_from(["one", "all"]), paused=st.sampled_from([0, 0, 1]),
          attempts=st.sampled_from(["", "1", "2"]), window_us=st.sampled_from([None, 0, 10**15]),
          due_us=due)  # fmt: skip
    def put_schedule(
        self, name: str, user: str, superuser: bool, job: str, rule: tuple[str, str, str], window_us: int | None,
        due_us: str, **wanted: Any,
    ) -> None:  # fmt: skip
        room, _, short = name.partition(":")
        unique = "" if window_us is None else f"{JOBS.index(job):032x}:{window_us}"
        named = dict(zip(("cron", "every_ms", "zone"), rule, strict=True)) | {"job": job, "unique": unique} | wanted
        arguments = {"room": room, "name": short, "user": user, "superuser": int(superuser), "payload": "{}"} | named
        arguments |= {"priority": 0, "backoff_ms": 3_600_000, "silence_ms": 0, "due_us": due_us, "most": MOST}
        answer = self.call("schedules/put", repeats=False, **arguments)
        old, known = self.model.schedules.get(name), self.model.jobs.get(job)
        if known is None or known.deleted:
            assert answer == ["job"]
        elif old is not None and not superuser and old.user != user:
            assert answer == ["forbidden"]
        elif old is None and len(self.model.schedules) >= MOST:
            assert answer == ["full"]
        else:
            assert answer[0] == ("made" if old is None else "changed")
            self.model.put(name, user, str(answer[1][3]), due_us, {key: str(value) for key, value in named.items()})
            assert self.of(answer[1]) == self.model.schedules[name]
            if self.twice:
                assert self.call("schedules/put", repeats=False, **arguments)[1] == answer[1]

    @step(name=names, user=users, superuser=st.booleans(), paused=st.booleans(), due_us=due, hub=st.integers(0, 3))
    def pause_schedule(self, name: str, user: str, superuser: bool, paused: bool, due_us: str, hub: int) -> None:
        """Its next time was worked out from what it is, or from what it was when a hub looked."""
        known = self.model.schedules.get(name)
        older = [one["plan"] for one in self.hub(hub).due if one["id"] == name] if hub < 2 else []
        plan = older[0] if older else known.plan if known else ""
        answer = self.call(
            "schedules/pause", schedule=name, user=user, superuser=int(superuser), paused=int(paused), plan=plan,
            due_us=due_us,
        )  # fmt: skip
        if known is None:
            assert answer == ["schedule"]
        elif not superuser and known.user != user:
            assert answer == ["forbidden"]
        elif known.paused != str(int(paused)) and plan != known.plan:
            assert answer == ["moved"]
        else:
            if known.paused != str(int(paused)):
                known.paused, known.due, known.again = str(int(paused)), due_us, ""
            assert self.of(answer[1]) == known

    @step(name=names, user=users, superuser=st.booleans())
    def remove_schedule(self, name: str, user: str, superuser: bool) -> None:
        answer = self.call("schedules/remove", repeats=False, schedule=name, user=user, superuser=int(superuser))
        known = self.model.schedules.get(name)
        if known is None:
            assert answer == ["schedule"]
        elif not superuser and known.user != user:
            assert answer == ["forbidden"]
        else:
            assert answer == ["ok"]
            del self.model.schedules[name]

    @step(hub=hubs, limit=st.sampled_from([1, 9]))
    def look_what_is_due(self, hub: int, limit: int) -> None:
        _, *found = self.call("schedules/due", repeats=False, limit=limit)
        expected = sorted((int(s.place), name) for name, s in self.model.schedules.items() if s.is_due(FAR))
        assert [f"{reply[0]}:{reply[1]}" for reply in found] == [name for _, name in expected][:limit]
        read = [(f"{reply[0]}:{reply[1]}", self.of(reply)) for reply in found]
        self.hub(hub).due = [{"id": name, "due": one.due, "plan": one.plan} for name, one in read]

    @step(hub=hubs, next_us=due, firings=st.sampled_from([0, 1, 1, 2]))
    def fire_what_was_due(self, hub: int, next_us: str, firings: int) -> None:
        """Fire a schedule as this hub has read it; the other hub, or a change, may have come before."""
        for one in self.hub(hub).due:
            later = str(int(one["due"]) + 1) if next_us in DUE[:3] else next_us
            times = [str(int(one["due"]) - number) for number in reversed(range(firings))]
            ids = [self.model.firing(one["id"], one["plan"], at, self.new_id) for at in times]
            rest = [text for pair in zip(ids, times, strict=True) for text in pair]
            fired = {"schedule": one["id"], "due_us": one["due"], "plan": one["plan"], "next_us": later, "rest": rest}
            answer = self.call("schedules/fire", repeats=False, **fired)
            self.check_firing(one, later, dict(zip(ids, times, strict=True)), answer)
            if self.twice:
                assert self.call("schedules/fire", repeats=False, **fired) == ["moved"]
        self.hub(hub).due = []

    @step(hub=hubs, why=st.sampled_from(["zone", "cron"]), again_us=st.sampled_from(DUE[:4]))
    def put_aside_what_was_due(self, hub: int, why: str, again_us: str) -> None:
        """This hub cannot read what it has looked at; the other one may have fired it, or a user changed it."""
        for one in self.hub(hub).due:
            known = self.model.schedules.get(one["id"])
            aside = {"schedule": one["id"], "due_us": one["due"], "plan": one["plan"], "why": why, "again_us": again_us}
            answer = self.call("schedules/put_aside", repeats=False, **aside)
            if known is None:
                assert answer == ["gone"]
            elif known.paused == "1" or known.due != one["due"] or known.plan != one["plan"]:
                assert answer == ["moved"]
            else:
                assert answer == ["ok", int(known.broken != why)]
                known.broken, known.again = why, again_us
                if self.twice:
                    assert self.call("schedules/put_aside", repeats=False, **aside) == ["ok", 0]

    @step(name=names, hub=hubs)
    def it_is_changed_and_due_at_the_same_time(self, name: str, hub: int) -> None:
        """A hub has looked, and goes on to fire it."""
        known = self.model.schedules.get(name)
        if known is not None and known.is_due(FAR):
            self.look_what_is_due(hub=hub, limit=9)
            rule = RULES[0] if known.cron else RULES[1]
            self.put_schedule(name=name, user=known.user, superuser=False, job=known.job, rule=rule, window_us=None,
                              due_us=known.due, catch_up=known.catch_up, paused=0, attempts="")  # fmt: skip
            self.fire_what_was_due(hub=hub, next_us="1", firings=1)

    @step(name=names, hub=hubs)
    def it_is_changed_while_it_is_let_go_on(self, name: str, hub: int) -> None:
        """Its next time was worked out before."""
        known = self.model.schedules.get(name)
        if known is not None and known.is_due(FAR):
            self.look_what_is_due(hub=hub, limit=9)
            rule = RULES[0] if known.cron else RULES[1]
            self.put_schedule(name=name, user=known.user, superuser=False, job=known.job, rule=rule, window_us=None,
                              due_us="1", catch_up=known.catch_up, paused=1, attempts="")  # fmt: skip
            self.pause_schedule(name=name, user=known.user, superuser=False, paused=False, due_us="2", hub=hub)

    @step(name=names, user=users, job=st.sampled_from(JOBS))
    def a_time_is_caught_up_with_that_had_its_task(self, name: str, user: str, job: str) -> None:
        """Two firings overlap, as after a loss; what the first one made is not made again."""
        if len(self.model.tasks) < 24:
            self.put_schedule(name=name, user=user, superuser=True, job=job, rule=RULES[0], window_us=None,
                              due_us="1", catch_up="all", paused=0, attempts="")  # fmt: skip
            for _ in range(2):
                self.look_what_is_due(hub=0, limit=9)
                self.fire_what_was_due(hub=0, next_us="1", firings=2)

    def check_firing(self, one: dict[str, str], next_us: str, firings: dict[str, str], answer: list[Any]) -> None:
        known = self.model.schedules.get(one["id"])
        if known is None or known.paused == "1" or known.due != one["due"] or known.plan != one["plan"]:
            assert answer == ["moved"]
            return
        made, why = self.model.fire(known, next_us, firings, self.submitted_at)
        assert answer == ["ok", made, why]

    def submitted_at(self, task: str) -> int:
        return int(self.redis.hget(self.keys.task(task), "at"))

    def of(self, reply: list[str]) -> Schedule:
        """Return what a script says of a schedule."""
        (
            _, _, user, at, job, payload, cron, every_ms, zone, catch_up, paused, due, priority, attempts, _backoff,
            _silence, unique, last, task, fired, why, broken, again, counted,
        ) = reply  # fmt: skip
        assert (payload, priority, counted) == ("{}", "0", "514")
        return Schedule(
            user,
            at,
            job,
            cron,
            every_ms,
            zone,
            catch_up,
            paused,
            due,
            attempts,
            unique,
            last,
            task,
            int(fired or 0),
            why,
            broken,
            again,
        )
