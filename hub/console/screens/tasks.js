// Tasks over all rooms, by status: payload, result, error, and another attempt.
import { part, query, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time, parted, pretty, short } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Block, Choice, Detail, Empty, Facts, Filter, Head, Pager, Shown, State, num, some } from "../lib/parts.js";
import { refine, to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";
import { TasksWith } from "./told.js";

const LIMIT = 50;
const J = "v1/joblib";
/** @type {[string, string][]} */
const STATUSES = [["pending", "Pending"], ["claimed", "Claimed"], ["running", "Running"], ["completed", "Completed"], ["failed", "Failed"],
  ["cancelled", "Cancelled"], ["dead", "Dead letters"], ["later", "Put off"], ["blocked", "Waiting for others"]];

/** @param {string[]} ids @param {() => void} [after] */
function cancel(ids, after) {
  ask({
    title: ids.length === 1 ? "Cancel this task?" : "Cancel these tasks?",
    what: html`<p>
      They end as <code>cancelled</code>; a worker that runs one hears of it with its next heartbeat. A task that has ended meanwhile is
        left
        alone.</p>`,
    list: ids, one: "task", after, verb: "Cancel",
    run: (reason, list) => each(list, (id) => send("PATCH", `${J}/tasks/${part(id)}`, { status: "cancelled" }, reason)),
    done: (result) => told(result, "task", "cancelled"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
function retry(ids, after) {
  ask({
    title: ids.length === 1 ? "Try this task again?" : "Try these tasks again?",
    what: html`<p>Each is submitted anew with the same payload, and is a dead letter no longer. The failed one stays as it is.</p>`,
    list: ids, one: "task", after, verb: "Try again", danger: false,
    run: (reason, list) => each(list, (id) => send("POST", `${J}/tasks/${part(id)}/retry`, {}, reason)),
    done: (result) => told(result, "task", "queued again"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
function drop(ids, after) {
  ask({
    title: "Take these off the dead letters?",
    what: html`<p>They stay failed, and leave the list of dead letters.</p>`,
    list: ids, one: "dead letter", after, verb: "Drop",
    run: (reason, list) => each(list, (id) => send("DELETE", `${J}/dead/${part(id)}`, undefined, reason)),
    done: (result) => told(result, "dead letter", "dropped"),
  });
}

/** The share that is done, and what its worker said last. @param {any} task */
const progress = (task) => (task.progress == null && !task.message ? "–"
  : html`<span class="cut">${task.progress == null ? "" : html`<b>${Math.round(100 * task.progress)}%</b> `}${task.message ?? ""}</span>`);

/** @param {{task: any}} props */
function Task({ task }) {
  const more = useData(`${J}/tasks/${part(task.id)}`, ["task"], 3).data ?? {};
  const links = useData(`console/tasks/${part(task.id)}/links`, ["task"], 3).data;
  return html`<${Detail} kind="task" id=${task.id}><${Facts} of=${[
    ["Task", html`<code>${task.id}</code>`], ["Room", task.roomId],
      ["Worker", task.workerId && html`<a href=${to(["why", "worker", task.workerId])}>${task.workerId}</a>`],
    ["Started", task.startedAt && html`<${Time} at=${task.startedAt}/>`],
      ["Ended", task.completedAt && html`<${Time} at=${task.completedAt}/>`],
    ["Attempt", task.maxAttempts ? `${task.attempt} of ${task.maxAttempts}` : undefined], ["Priority", task.priority],
      ["Not before", task.notBefore && html`<${Time} at=${task.notBefore}/>`],
    ["Kept back", !more.waitsFor && more.why],
    ["Waits for", links?.waitsFor.length > 0 && html`<${TasksWith} of=${links.waitsFor}/>`],
    ["Waited for by",
      links?.waitedForBy.length > 0 && html`<${TasksWith} of=${links.waitedForBy}/>
        ${links.more > 0 && html`<p class="faint">and ${num(links.more)} more</p>`}`],
    ["Progress",
      more.progressAt && html`${more.progress == null ? "" : `${Math.round(100 * more.progress)}% `}${more.message ?? ""}
        (<${Time} at=${more.progressAt}/>)`],
  ]}/>${task.error && html`<${Block} name="Error" text=${task.error}/>`}
    <${Block} name="Payload" text=${pretty(task.payload)}/>
    ${"result" in more && html`<${Block} name="Result" text=${JSON.stringify(more.result, null, 2)}/>`}
    ${more.resultLost && html`<p>The store has lost its result.</p>`}
    ${more.log?.length > 0 && html`<${Block} name="Log" text=${more.log.map((/** @type {any} */ l) => `${l.at}  ${l.text}\n`)}/>`}
    </${Detail}>`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Tasks({ route }) {
  const { status = "pending", q = "", job = "", open = "" } = route.query;
  const offset = Number(route.query.offset ?? 0);
  const chosen = useChosen();
  const found = useData(`console/tasks${query({ status, q, job, limit: LIMIT, offset })}`, ["task", "worker"], 3);
  const data = found.data;
  const moving = may("moveTasks");
  const live = ["pending", "claimed", "running", "later", "blocked"].includes(status);
  const retriable = ["failed", "cancelled", "dead"].includes(status);
  const rows = data?.tasks ?? [];
  const shown = rows.find((/** @type {any} */ task) => task.id === open);
  return html`<${Head} title="Tasks" about=${job ? `Of the job ${job}.` : "Over all rooms, the one submitted last first."}>
    <${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Choice} name="status" value=${status} label="Status" of=${STATUSES}/>
      <${Filter} name="q" value=${q} label="Id, job, room, error or payload contains"/>
      <${Filter} name="job" value=${job} label="Exactly this job"/></div>
    ${moving && html`<${Bulk} chosen=${chosen} one="task">
      ${live && html`<button type="button" class="danger" onClick=${() => cancel(chosen.ids, chosen.none)}>Cancel…</button>`}
      ${retriable && html`<button type="button" onClick=${() => retry(chosen.ids, chosen.none)}>Try again…</button>`}
      ${status === "dead"
        && may("dead") && html`<button type="button" class="danger" onClick=${() => drop(chosen.ids, chosen.none)}>
          Drop…</button>`}</${Bulk}>`}
    <${Shown} from=${found}>
      <${Table} caption="Tasks" rows=${rows} id=${(/** @type {any} */ t) => t.id} chosen=${moving && (live || retriable) ? chosen
        : null} columns=${[
      { head: "Task",
        cell: (/** @type {any} */ t) =>
          html`<button type="button" class="link" aria-expanded=${open === t.id} aria-controls=${`detail-${t.id}`} onClick=${() =>
            refine({ open: open === t.id ? "" : t.id })}><code>${short(t.id)}</code></button>` },
      { head: "Status",
        cell: (/** @type {any} */ t) =>
          html`<${State} state=${t.dead ? "dead" : t.status} text=${t.dead ? "dead letter" : t.waitsFor
            ? `waits for ${some(t.waitsFor, "task")}` : t.status}/>` },
      { head: "Job", grow: true, cell: (/** @type {any} */ t) => html`<a href=${to(["jobs", t.jobName])}>${parted(t.jobName)}</a>` },
      ...(status === "running" ? [{ head: "Progress", cell: progress }] : []),
      { head: "Room", less: true, cell: (/** @type {any} */ t) => t.roomId },
      { head: "Position", num: true, less: true, cell: (/** @type {any} */ t) => num(t.queuePosition) },
      { head: "Submitted", less: true, cell: (/** @type {any} */ t) => html`<${Time} at=${t.createdAt}/>` },
      { head: "Attempt", num: true, less: true,
        cell: (/** @type {any} */ t) => (t.maxAttempts ? `${t.attempt} of ${t.maxAttempts}` : "1") },
      { head: "Error", less: true, grow: true,
        cell: (/** @type {any} */ t) => (t.error ? html`<span class="cut">${t.error}</span>` : "–") },
    ]} empty=${html`<${Empty} title=${q || job ? "No task matches" : status === "dead" ? "There is no dead letter"
      : `No task is ${(STATUSES.find(([name]) => name === status)?.[1] ?? status).toLowerCase()}`} command=${status === "pending" && !q
        && !job
      ? "hub submit ROOM:CATEGORY:NAME '{}'" : ""}>
      ${data && !data.complete ? "The latest 2,000 were searched." : ""}</${Empty}>`}/>
      ${shown && html`<${Task} key=${shown.id} task=${shown}/>`}
      ${data && !data.complete && rows.length > 0 && html`<p class="faint">The latest 2,000 were looked through; there are more.</p>`}
      ${data && html`<${Pager} offset=${offset} limit=${LIMIT} total=${data.total}/>`}</${Shown}>`;
}
