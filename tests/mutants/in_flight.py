"""Mistakes that let late messages take effect; the machine of messages in flight looks for them."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

FLIGHT = (
    Mistake(
        "commands/capacity/note_renewed.lua", "if store.hearing and left_ms > 0 then", "if false then",
        "a renewal is lost with the last second of Redis",
    ),
    Mistake(
        "commands/capacity/note_ended.lua", "      if held ~= '' and record.place == 'lent' then releases.release(slot, record, '120', 'grant.returned', '') end\n", "",
        "what another hub brought back stays lent although it was returned",
    ),
    Mistake(
        "commands/capacity/give_back.lua", "    if #a.by < 32 and reports.is_live(a.slot, a.token) then endings", "    if missing then endings",
        "a lease that was returned is brought back by a hub that stood still meanwhile",
    ),
    Mistake(
        "commands/tasks/move.lua", "if a.claim ~= '' and a.claim ~= t.claim then return {'conflict', t.status} end\n", "",
        "a report ends a later attempt than the one it is about",
    ),
    Mistake(
        "node_processes.lua", "  return redis.call('LPOS', keys.incarnations(part), incarnation) and 'superseded' or 'unknown'\n", "  return 'own'\n",
        "the process before ends what its successor lends",
    ),
    Mistake(
        "commands/store/open.lua", "'settle_ms', clock_ms + a.settle_ms", "'settle_ms', clock_ms",
        "slots are lent before hubs have said what they lent",
    ),
    Mistake(
        "commands/store/open.lua", "if not was[1] and a.lost == 'asleep' then", "if false then",
        "a hub that stood still brings back what ended meanwhile",
    ),
    Mistake(
        "commands/nodes/register.lua", "before ~= '' and redis.call('HGETALL', keys.lent(a.part)) or {}", "{}",
        "a process that takes a node over does not know what is lent",
    ),
    Mistake(
        "commands/nodes/register.lua", "if lost and a.first == '1' and not", "if false and not",
        "a process that registers first on a wiped store takes over from one that has yet to report its leases",
    ),
    Mistake(
        "commands/tasks/recall.lua", "recalls.wait_for(a.id, a.status, reserve.shortened(a.error), a.claim, a.request, a.worker)\n", "",
        "the end of a task is forgotten when its hub speaks before the one that knows of the submit",
    ),
    Mistake(
        "commands/tasks/claim.lua", "if store.settle_left_ms > 0 then return {'settling', math.ceil(store.settle_left_ms)} end  -- a hub may have yet to say what ended\n", "",
        "a task is given out again whose end a hub has yet to say",
    ),
    Mistake(
        "commands/capacity/verify.lua", "local unsure = held == a.token and store.settle_left_ms > 0\n", "local unsure = false\n",
        "a lease that one hub brought back is valid before another can say that it was returned",
    ),
    Mistake(
        "renewals.lua", "  if store.settle_left_ms > 0 then return {'settling'} end\n", "",
        "a lease that one hub brought back is renewed before another can say that it was returned",
    ),
    Mistake(
        "held_slots.lua", "return drains.holds_back(part) or revocations.believed_in(slot)", "return drains.holds_back(part)",
        "a slot is lent to the next while its last holder has yet to hear of it",
    ),
    Mistake(
        "revocations.lua", "  notifications.publish(keys.revoked_notice(slot), token)\n", "",
        "a listening holder is not told that its lease is over",
    ),
    Mistake(
        "hub/store/primary.py", "        elif self.identity != identity:\n", "        elif False:\n",
        "a connection does not ask who the server is, which was primary before",
        "waits_until_the_store_of_the_new_server_is_open", "tests/store/test_lost_in_between.py",
    ),
    Mistake(
        "hub/store/packing.py", "_CLOSED_MEANWHILE = (RuntimeError, AttributeError)", "_CLOSED_MEANWHILE = (ZeroDivisionError,)",
        "a call whose connection another task closes is answered as a failure of the hub",
        "another_task_closes", "tests/store/test_pipeline.py",
    ),
    Mistake(
        "hub/api/pipeline.py", "await check_caller(scope, serving)", "pass",
        "a hub that stood still carries out calls whose callers have gone",
    ),
    Mistake(
        "hub/store/primary.py", "        return time.monotonic() - self._asked_at >= ASK_S and await self.ask()\n", "        return False\n",
        "a hub stays with a primary that was demoted, and connects anew by its address",
    ),
    Mistake(
        "hub/capacity/memory.py", "self._store.clock_ms - self._keep_ms", "self._store.clock_ms + self._keep_ms",
        "a hub does not know any more what it lent before an outage",
    ),
    Mistake(
        "hub/capacity/memory.py",
        "        self._forget_old()\n\n"
        "    def _forget_old(self) -> None:\n"
        "        if self._store.clock_ms == self._forgot_ms:\n"
        "            return\n"
        "        self._forgot_ms = self._store.clock_ms\n"
        "        horizon = self._store.clock_ms - self._keep_ms\n"
        "        for memory in (self.leases, self.renewals, self.ends, self.given_up):\n"
        "            while memory and next(iter(memory.values()))[0] < horizon:\n",
        "        self.own = {**getattr(self, 'own', {}), (id(memory), name): __import__('time').monotonic()}\n"
        "        self._forget_old()\n\n"
        "    def _forget_old(self) -> None:\n"
        "        horizon = __import__('time').monotonic() - self._keep_ms / 1000\n"
        "        for memory in (self.leases, self.renewals, self.ends, self.given_up):\n"
        "            while memory and self.own[id(memory), next(iter(memory))] < horizon:\n",
        "a hub forgets by its own clock, which goes on while no hub can hear",
    ),
    Mistake(
        "reports.lua", "  if not ended or numbers.above(token, ended) then return false end\n", "  do return false end\n",
        "what was returned between two restarts, or before a late report, is lent again",
    ),
    Mistake(
        "reports.lua", "return store.hearing and token ~= ''", "return token ~= ''",
        "a lease that was returned while its node was gone comes back with it",
    ),
    Mistake(
        "reports.lua", "  if #token ~= 19 or", "  if true or",
        "a lease is called over before hubs have said what they lent",
    ),
    Mistake(
        "drains.lua", "  if not said[1] then return {} end\n  redis.call('DEL', key)\n", "  if true then return {} end\n",
        "a drain is lost with the store",
    ),
    Mistake(
        "node_processes.lua", "  if number == '' then return false end\n  local by, last", "  if true then return false end\n  local by, last",
        "a withdrawal that is late takes a slot off offer",
    ),
    Mistake(
        "commands/capacity/describe_slots.lua", "      or holds.is_late(redis.call('HGET', keys.slot(slot), 'described'), a.incarnation, number) then\n", "    then\n",
        "what a node says late of what a slot is like counts",
    ),
    Mistake(
        "commands/sweeping/brake.lua", "  if a.of == 'workers' then store.reporting = false end", "  ",
        "the brake on workers does not work after a restart",
    ),
    Mistake(
        "commands/capacity/still_held.lua", "words[#words + 1] = word", "words[#words + 1] = 'ok'",
        "a listening holder is told that it holds a lease that was revoked",
    ),
    Mistake(
        "hub/capacity/memory.py", "        for ticket in list(self.given_up):\n", "        for ticket in []:\n",
        "a borrow that was given up waits again when Redis has lost that",
    ),
    Mistake(
        "commands/queue/cancel.lua", "if not t.label and a.recalled ~= '1' then", "if not t.label then",
        "a borrow that was given up is given a slot when Redis knows of neither",
    ),
    Mistake(
        "commands/queue/cancel.lua", "command.finish('queue/cancel'", "command.change_unclocked('queue/cancel'",
        "a borrow is given up late",
    ),
    Mistake(
        "commands/queue/set_cap.lua", "command.change('queue/set_cap'", "command.change_unclocked('queue/set_cap'",
        "a cap is set or cleared late",
    ),
    Mistake(
        "hub/capacity/memory.py", "part=key_part(node), label=lease.label,", "part=key_part(node), label=lease.pool,",
        "what comes back after a loss counts under no cap",
    ),
    Mistake(
        "caps.lua", "  redis.call('HSET', keys.store, 'capped', store.has_caps and '1' or '0', 'served_capped', store.has_served_caps and '1' or '0')\n", "",
        "a cap that was set has no effect",
    ),
    Mistake(
        "dead_workers.lua", "  return dead_workers.fail_tasks(id, limit)\nend", "  return 0\nend",
        "a worker that was removed holds what it held",
    ),
    Mistake(
        "held_slots.lua", " or holds.of(slot)\n", "\n",
        "a slot is lent on while it is unwell",
    ),
    Mistake(
        "hub/capacity/bundles.py", "for lease in found.leases:", "for lease in found.leases[:1]:",
        "a hub remembers only the first lease of a bundle that it lent",
    ),
    Mistake(
        "hub/capacity/bundles.py", "                    self._memory.over(slot, token)\n", "",
        "a bundle that was returned comes back after a loss",
    ),
    Mistake(
        "hub/capacity/memory.py", "        if bundle:\n", "        if False:\n",
        "a bundle of which an operator has ended one lease comes back without it",
    ),
    Mistake(
        "hub/client/state.py", "                    self.ends[slot_id] = ended  #", "                    pass  #",
        "a slot is lent as its last holder left it when the store is lost before its node is told to make it fresh",
    ),
    Mistake(
        "hub/jobs/claims.py", "int((settings.worker_timeout_s + SLOTS_S) * 1000)", "int(SLOTS_S * 500)",
        "the slots of a task lapse before its worker is taken for dead",
    ),
    Mistake(
        "hub/jobs/claims.py", "[each for each in found if not each.slots or await self._slots.remember(each.slots)]", "found",
        "a hub does not remember the slots that it lent with a task",
    ),
    Mistake(
        "hub/teams/teams.py", "        store.when_replaced(self.recall)\n", "",
        "a lost store is not told the rows of teams",
    ),
    Mistake(
        "hub/capacity/memory.py", "run=lease.run, holder=lease.holder,", 'run=lease.run, holder="",',
        "what comes back after a loss counts for no team",
    ),
)  # fmt: skip
