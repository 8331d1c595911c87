"""The endpoints for tasks: submit, claim, report, change the status, look at a task, and wait for its end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import orjson
from fastapi import APIRouter, Request

from hub.api.callers.admission import admit_again
from hub.api.callers.caller import SUBMIT, WORKER
from hub.api.handling import long_polls, traces
from hub.api.handling.context import check_listening, is_gone
from hub.api.inputs import Caller, Hub
from hub.api.jobs import answers, bodies, slots
from hub.api.jobs.inputs import EnteredRoom, Key, PartOfTasks, SeenJob, SeenRoom, SentText, TaskId, Wait
from hub.api.jobs.reports import kept
from hub.api.operations import CALLER, Subject, operation
from hub.api.paths import PREFIX
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import ClaimBody, MoveBody, ResultBody, SubmitBody, moment_us, options_of
from hub.api.shapes.jobs import ClaimedShape, OutcomeShape, TaskIdsShape, TaskInFullShape, TaskPageShape, TaskShape
from hub.errors import (
    Forbidden,
    InternalJobNotConfigured,
    InvalidTaskTransition,
    JobNotFound,
    KeyReused,
    QuotaExceeded,
    Settling,
    Superseded,
    TaskNotFound,
    Unauthorized,
    WorkerNotFound,
)
from hub.history.task_terms import why_kept
from hub.jobs.models import TERMINAL, Claim, Options, Result, TaskInFull, TaskRecord
from hub.jobs.names import INTERNAL, dashed, schema_digest
from hub.jobs.workers import not_yours
from hub.observability.tracing import tracing
from hub.store.callers import for_nobody

router = APIRouter(prefix=PREFIX, tags=["tasks"])


@router.post(
    "/rooms/{room_id}/tasks/{job_name:full}",
    **operation(
        "submitTask",
        CALLER,
        p.KEY,
        status=202,
        also={200: TaskShape},
        headers=("Location", "Retry-After"),
        refusals=(JobNotFound, QuotaExceeded, KeyReused, InternalJobNotConfigured),
        bound="submit",
        room_first=True,
        scopes=(SUBMIT,),
    ),
)
async def submit(
    request: Request, hub: Hub, caller: Caller, room: EnteredRoom, full: SeenJob, sent: SentText[SubmitBody]
) -> Answer[TaskShape | TaskIdsShape]:
    """Submit a task to a job, or with `payloads` up to 1,000 tasks at once, of 1 MiB together; the answer is then their
    ids.

    The ids come in the order of the payloads. A larger body is refused with 413: send fewer payloads at a time. With an
    `Idempotency-Key` a repeat within 24 h is answered with the same tasks. When another task has the same `uniqueKey`,
    nothing is submitted, and the answer is 200 with this other task.
    """
    said, body = sent
    payloads, options = await bodies.payloads(said, body, hub.settings), _options(said, full)
    key = bodies.request_key(request, caller.user)
    check = partial(_check, hub, full, payloads, caller.user, many=said.payloads is not None)
    checked = await check() if hub.settings.validate_payloads == "submit" else ""
    await caller.see_parents(hub, options.after)
    await check_listening(request)
    made = await hub.tasks.submit(room, full, payloads, caller.user, options, key, check, checked)
    if tracing.on:
        traces.keep(hub.store, *(traces.task(task.id) for task in made[: traces.SOME]))
    if said.payloads is None:
        return answers.submitted(made[0])
    answer = Answer(TaskIdsShape(ids=[dashed(task.id) for task in made]), 202)
    answer.headers["retry-after"] = "1"
    return answer


async def _check(hub: Hub, full: str, payloads: list[str], user: str, *, many: bool) -> str:
    """Return the digest of the schema of the job; raises `Malformed` when a payload does not fit this schema, and
    `JobNotFound` for an unknown job."""
    schema = (await hub.jobs.get(full)).schema
    fault = await hub.validation.check(full, schema, payloads, user)
    if fault is not None:
        if fault.took:
            await hub.jobs.mark_slow(schema, fault.took)
        where = ["payloads", fault.number] if many else ["payload"]
        raise bodies.malformed("schema", ["body", *where, *fault.path], fault.message, None)
    return schema_digest(orjson.loads(schema))


def _options(said: SubmitBody, full: str) -> Options:
    """Return the options of a submit; raises `Malformed` when there are any for an `@internal` job, which takes
    none."""
    if full.startswith(f"{INTERNAL}:") and said.model_dump(exclude={"payload", "payloads"}, exclude_none=True):
        message = (
            "priority, notBefore, maxAttempts, backoffSeconds, maxSilenceSeconds, uniqueKey and after should be left "
            "out for an @internal job"
        )
        raise bodies.malformed("unsupported", ["body"], message, None)
    return options_of(
        said,
        due_us=None if said.not_before is None else moment_us(said.not_before),
        after=None if said.after is None else tuple(parent.hex for parent in said.after),
        run_on_failure=None if said.on_failure is None else said.on_failure == "run",
    )


@router.post(
    "/tasks/claim",
    **operation(
        "claimTasks",
        CALLER,
        refusals=(WorkerNotFound, Superseded, Settling),
        about=Subject("worker", in_body=True),
        bound="report",
        scopes=(WORKER,),
    ),
)
async def claim(
    request: Request, hub: Hub, caller: Caller, sent: SentText[ClaimBody], key: Key
) -> Answer[ClaimedShape]:
    """Claim the oldest task among all jobs of a worker; `task` is null when there is none. For the worker's owner
    alone.

    `limit` asks for several tasks, `waitSeconds` waits for the first one, and `start` claims them as running. `results`
    reports on tasks that were claimed before, and is handled first. With an `Idempotency-Key` a repeat is answered with
    the same tasks while the worker holds them, and a claim that got no task is answered with none again. Claims with a
    limit or a key name each `claim`; a report that repeats this name cannot be taken for a report on another claim of
    the same task. A task whose job needs slots comes with them; where they are not free, it stays in its queue, and a
    claim that waits stands in the line for them.
    """
    said, body = sent
    worker = said.worker_id.hex
    await caller.reach_worker(hub, worker)
    await check_listening(request)
    outcomes: list[OutcomeShape] = []
    if said.results:
        outcomes = await _reported(hub, said.results, body, worker, caller, key)
    elif said.limit == 0 and (await hub.workers.get(worker)).user != caller.user:
        raise not_yours(worker)
    tasks = [] if said.limit == 0 else await _claimed(request, hub, said, caller, key)
    named = said.limit is not None or bool(key)
    shown = [answers.claimed(task, await slots.lent(hub, task), named=named) for task in tasks]
    if tracing.on:
        came_from = await traces.follow(hub.store, *(traces.task(task.id) for task in tasks))
        for task, told in zip(tasks, shown, strict=True):
            if text := came_from.get(traces.task(task.id)):
                told["traceparent"] = text
    answer = ClaimedShape(task=shown[0] if shown else None)
    if said.limit is not None:
        answer["tasks"] = shown
    if said.limit is not None or said.results is not None:
        answer["results"] = outcomes
    return Answer(answer)


async def _reported(
    hub: Hub, said: list[ResultBody], body: bodies.SentBody, worker: str, caller: Caller, key: str
) -> list[OutcomeShape]:
    """Apply a worker's reports on tasks, and return their outcomes. A task whose result is too long or too deep fails
    at once, because the worker would only repeat the same result."""
    values, most = bodies.results(said, body), hub.settings.task_result_max_bytes
    reports, large = [], set()
    for each, value in zip(said, values, strict=True):
        report = Result(each.id.hex, each.status, kept(each.error), each.claim or "", value, each.retry)
        if why := bodies.unfit(value, most):
            large.add(report.task)
            report = Result(report.task, "failed", why, report.claim)
        reports.append(report)
    if tracing.on:
        await traces.follow(hub.store, *(traces.task(report.task) for report in reports))
    words = await hub.tasks.finish(worker, caller.user, reports, key)
    words = await caller.outcomes(hub, [report.task for report in reports], words)
    return [
        OutcomeShape(id=dashed(report.task), outcome="too-large" if word == "ok" and report.task in large else word)
        for report, word in zip(reports, words, strict=True)
    ]


async def _claimed(request: Request, hub: Hub, said: ClaimBody, caller: Caller, key: str) -> list[TaskRecord]:
    """Claim tasks and return them. They go back to their queue when the caller has hung up and has no key to ask for
    them again, and when the caller's token was revoked during the wait."""
    worker, user = said.worker_id.hex, caller.user
    runtime_ms = int((said.runtime_s or 0) * 1000)
    wait_s = min(said.wait_s or 0, hub.settings.long_poll_max_wait_s)
    wanted = Claim(
        said.limit or 1, bool(said.start), runtime_ms, key, final=not wait_s, incarnation=said.incarnation,
        holder=await slots.holder(request, hub, caller, worker),
    )  # fmt: skip

    async def gone() -> bool:
        return await is_gone(request)

    async def look(seconds: float) -> list[TaskRecord]:
        return await hub.claims.claim_or_wait(worker, user, wanted, seconds, gone)

    found = await hub.claims.claim(worker, user, wanted, gone)
    if not found and wait_s:
        found = await long_polls.wait(request, wait_s, look, bool)
        try:
            await admit_again(request)
        except (Unauthorized, Forbidden):
            await _give_back(hub, worker, user, found)
            raise
        if not found and key and not await is_gone(request):
            found = await hub.claims.claim(worker, user, replace(wanted, final=True), gone)
    if found and not key and await is_gone(request):
        await _give_back(hub, worker, user, found)
    if barred := [task for task in found if not await slots.may_hold(hub, caller, task)]:
        await _give_back(hub, worker, user, barred)
    return [task for task in found if task not in barred]


async def _give_back(hub: Hub, worker: str, user: str, tasks: list[TaskRecord]) -> None:
    with for_nobody():
        await hub.tasks.finish(worker, user, [Result(task.id, "pending", claim=task.claim) for task in tasks])


@router.get("/rooms/{room_id}/tasks", **operation("listTasksOfRoom", CALLER, anonymous=True))
async def of_room(hub: Hub, asked: PartOfTasks, room: SeenRoom) -> Answer[TaskPageShape]:
    """Return the tasks submitted to a room, newest first."""
    found = await hub.tasks.page_of_room(room, asked.status, asked.limit, asked.offset)
    return Answer(answers.page(TaskPageShape, found, asked, answers.task))


@router.get(
    "/tasks/{task_id}",
    **operation("getTask", CALLER, headers=("Preference-Applied",), refusals=(TaskNotFound,), anonymous=True),
)
async def look(request: Request, hub: Hub, caller: Caller, task: TaskId, wait: Wait) -> Answer[TaskInFullShape]:
    """Return a task with its result; with `Prefer: wait=N` as soon as the task has ended, or as it is after N
    seconds."""
    found = await hub.tasks.show(task)
    caller.see_task(found.task)
    wait_s = min(wait or 0, hub.settings.long_poll_max_wait_s)
    if not wait_s or found.task.status in TERMINAL:
        return Answer(await _in_full(hub, found))
    found = await long_polls.wait(
        request, wait_s, lambda s: hub.tasks.wait(task, s), lambda shown: shown.task.status in TERMINAL
    )
    await admit_again(request)  # the caller's token may have been revoked during the wait
    answer = Answer(await _in_full(hub, found))
    answer.headers["preference-applied"] = f"wait={wait_s:g}"
    return answer


async def _in_full(hub: Hub, found: TaskInFull) -> TaskInFullShape:
    return answers.shown(found, await slots.names(hub, found.task), await why_kept(hub, found.task))


@router.patch(
    "/tasks/{task_id}",
    **operation(
        "moveTask",
        CALLER,
        p.KEY,
        refusals=(TaskNotFound, InvalidTaskTransition, KeyReused),
        bound="report",
        scopes=(WORKER, SUBMIT),
    ),
)
async def move(request: Request, hub: Hub, caller: Caller, task: TaskId, sent: SentText[MoveBody]) -> Answer[TaskShape]:
    """Give a task another status: for the owner of the worker that holds it; its submitter may cancel it.

    A completed task may come with its `result`, any JSON. With an `Idempotency-Key` a repeat is answered alike as long
    as the task has not changed again.
    """
    said, body = sent
    if said.status != "cancelled":
        caller.check_scope(WORKER)
    key = bodies.request_key(request, caller.user)
    await caller.reach_task(hub, task)
    value = bodies.result(body, hub.settings)
    await check_listening(request)
    if tracing.on:
        await traces.follow(hub.store, traces.task(task))
    moved = await hub.tasks.move(
        task, said.status, kept(said.error),
        user=caller.user, superuser=caller.superuser, request=key, claim=said.claim or "", value=value,
    )  # fmt: skip
    return Answer(answers.task(moved))
