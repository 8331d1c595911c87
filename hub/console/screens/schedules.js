// Schedules over all rooms: next time, last result, and pausing.
import { part, query, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time, parted, pretty } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Block, Detail, Empty, Facts, Filter, Head, Pager, Shown, State, num, some, span } from "../lib/parts.js";
import { refine, to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";

const LIMIT = 50;

/** @param {any} schedule */
const idOf = (schedule) => `${schedule.room}:${schedule.name}`;

/** Where the jobs API has it. @param {string} id */
function pathOf(id) {
  const [room = "", name = ""] = id.split(":");
  return `v1/joblib/rooms/${part(room)}/schedules/${part(name)}`;
}

/** @param {any} schedule */
const times = (schedule) => (schedule.cron ? html`<code>${schedule.cron}</code> ${schedule.timeZone}`
  : `every ${span(schedule.everySeconds)}`);

/** The result of its last time. @param {any} s */
const result = (s) => (s.problem ? html`<${State} state="failed" text="put aside"/> ${s.problem}` : s.why
  ? html`<${State} state="warning" text="none"/> ${s.why}` : s.lastTask
  ? html`<a href=${to(["why", "task", s.lastTask])}><${State} state=${s.lastStatus ?? "gone"}/></a>` : "–");

/** @param {string[]} ids @param {boolean} paused @param {() => void} after */
function pause(ids, paused, after) {
  ask({
    title: `${paused ? "Pause" : "Resume"} ${some(ids.length, "schedule")}?`,
    what: paused ? html`<p>No task is submitted until it is resumed; times that pass meanwhile are not caught up. Its tasks go on.</p>`
      : html`<p>Each goes on with its next time. Times that passed while it was paused are not caught up.</p>`,
    list: ids, one: "schedule", after, verb: paused ? "Pause" : "Resume", danger: paused,
    run: (reason, list) => each(list, (id) => send("PATCH", pathOf(id), { paused }, reason)),
    done: (result) => told(result, "schedule", paused ? "paused" : "resumed"),
  });
}

/** @param {string[]} ids @param {() => void} after */
function remove(ids, after) {
  ask({
    title: `Remove ${some(ids.length, "schedule")}?`,
    what: html`<p>
      It submits no more tasks, and its times and payload are deleted; to have it back, create it anew. The tasks that it has
        submitted stay.</p>`,
    list: ids, one: "schedule", after, verb: "Remove",
    run: (reason, list) => each(list, (id) => send("DELETE", pathOf(id), undefined, reason)),
    done: (result) => told(result, "schedule", "removed"),
  });
}

/** @param {{schedule: any}} props */
function Schedule({ schedule }) {
  const id = idOf(schedule);
  const more = useData(pathOf(id), ["task", "schedule"], 5).data;
  return html`<${Detail} kind="schedule" id=${id}><${Facts} of=${[
    ["Schedule", html`<code>${id}</code>`], ["Times", times(schedule)], ["Last", schedule.lastAt && html`<${Time} at=${schedule.lastAt}/>`],
      ["Its task", result(schedule)], ["Tasks made", num(schedule.fired)],
    ["Problem", schedule.problem], ["Attempts", schedule.maxAttempts], ["Priority", schedule.priority],
  ]}/>${more && html`<${Block} name="Payload" text=${pretty(more.payload)}/>`}
    </${Detail}>`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Schedules({ route }) {
  const { q = "", open = "" } = route.query;
  const offset = Number(route.query.offset ?? 0);
  const chosen = useChosen();
  const found = useData(`console/schedules${query({ q, limit: LIMIT, offset })}`, ["task", "schedule"], 5);
  const acts = may("moveTasks") && may("dead");
  const rows = found.data?.schedules ?? [];
  const shown = rows.find((/** @type {any} */ each) => idOf(each) === open);
  return html`<${Head} title="Schedules" about="Tasks that are submitted at certain times, over all rooms; the next one first.">
    <${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Filter} name="q" value=${q} label="Room or name contains"/></div>
    ${acts && html`<${Bulk} chosen=${chosen} one="schedule">
      <button type="button" onClick=${() => pause(chosen.ids, true, chosen.none)}>Pause…</button>
      <button type="button" onClick=${() => pause(chosen.ids, false, chosen.none)}>Resume…</button>
      <button type="button" class="danger" onClick=${() => remove(chosen.ids, chosen.none)}>Remove…</button></${Bulk}>`}
    <${Shown} from=${found}><${Table} caption="Schedules" rows=${rows} id=${idOf} chosen=${acts ? chosen : null} columns=${[
      { head: "Schedule",
        cell: (/** @type {any} */ s) =>
          html`<button type="button" class="link" aria-expanded=${open === idOf(s)} aria-controls=${`detail-${idOf(s)}`} onClick=${() =>
            refine({ open: open === idOf(s) ? "" : idOf(s) })}>
            ${idOf(s)}</button>` },
      { head: "State",
        cell: (/** @type {any} */ s) =>
          html`<${State} state=${s.paused ? "paused" : s.problem ? "failed" : s.nextAt ? "active" : "over"} text=${s.paused || !s.problem
            ? undefined : "put aside"}/>` },
      { head: "Next", cell: (/** @type {any} */ s) => html`<${Time} at=${s.nextAt}/>` },
      { head: "Job", grow: true, less: true, cell: (/** @type {any} */ s) => html`<a href=${to(["jobs", s.job])}>${parted(s.job)}</a>` },
      { head: "Times", less: true, cell: times },
      { head: "Last", less: true, cell: (/** @type {any} */ s) => html`<${Time} at=${s.lastAt}/>` },
      { head: "Its task", less: true, cell: result },
    ]} empty=${html`<${Empty} title=${q ? "No schedule matches" : "There is no schedule"} command=${q ? ""
      : "hub schedule add nightly ROOM:CATEGORY:NAME '{}' --cron '30 2 * * *'"}>
      ${q ? "" : "A schedule submits a task at certain times, once for all hubs."}</${Empty}>`}/>
      ${shown && html`<${Schedule} key=${open} schedule=${shown}/>`}
      ${found.data && html`<${Pager} offset=${offset} limit=${LIMIT} total=${found.data.total}/>`}</${Shown}>`;
}
