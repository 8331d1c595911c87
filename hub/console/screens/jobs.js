// Jobs that are served or waited for, and the workers that serve them.
import { part, query, send } from "../lib/api.js";
import { ask } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { parted, pretty } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Block, Empty, Facts, Filter, Head, Pager, Shown, State, num, span } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";
import { Wants } from "./acts.js";

const LIMIT = 100;
const KINDS = ["task", "worker", "job"];

/** @param {any} worker */
function remove(worker) {
  ask({
    title: "Remove this worker?",
    what: html`<p><code>${worker.id}</code></p>
      <p>The <b>${num(worker.tasks)}</b> tasks it holds fail, or are tried again where they have attempts left. Jobs without another worker
        are soft-deleted.</p>`,
    count: Math.max(1, worker.tasks), verb: "Remove the worker",
    run: (reason) => send("DELETE", `v1/joblib/workers/${part(worker.id)}`, undefined, reason),
    done: () => "The worker is removed.",
  });
}

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Jobs({ route }) {
  const full = route.path[1];
  return full ? html`<${Job} full=${full}/>` : html`<${List} route=${route}/>`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
function List({ route }) {
  const offset = Number(route.query.offset ?? 0);
  const text = (route.query.q ?? "").toLowerCase();
  const jobs = useData("console/jobs", KINDS, 3);
  const workers = useData(`console/workers${query({ limit: LIMIT, offset })}`, KINDS, 3);
  const rows = (jobs.data?.jobs ?? []).filter((/** @type {any} */ job) => job.job.toLowerCase().includes(text));
  const silent = (/** @type {any} */ w) => w.sinceBeatMs !== null && w.sinceBeatMs > workers.data.timeoutSeconds * 500;
  return html`<${Head} title="Jobs and workers" about="Jobs, their workers and their pending tasks."><${AsOf} at=${jobs.at}/></${Head}>
    <div class="filters"><${Filter} name="q" value=${route.query.q ?? ""} label="Job contains"/></div>
    <${Shown} from=${jobs}><section><h2>Jobs</h2><${Table} caption="Jobs" rows=${rows} id=${(/** @type {any} */ j) => j.job} columns=${[
      { head: "Job", grow: true, cell: (/** @type {any} */ j) => html`<a href=${to(["jobs", j.job])}>${parted(j.job)}</a>` },
      { head: "Pending", num: true,
        cell: (/** @type {any} */ j) => html`<a href=${to(["tasks"], { status: "pending", job: j.job })}>${num(j.pending)}</a>` },
      { head: "Oldest waits", num: true, time: true, less: true, cell: (/** @type {any} */ j) => span(j.oldestSeconds) },
      { head: "Workers", num: true, cell: (/** @type {any} */ j) => num(j.workers) },
      { head: "State",
        cell: (/** @type {any} */ j) =>
          html`<${State} state=${j.workers ? (j.pending ? "running" : "ok") : j.pending ? "failed" : "unknown"} text=${j.workers
            ? (j.pending ? "busy" : "idle") : "no worker"}/>` },
    ]} empty=${html`<${Empty} title=${text ? "No job is called that" : "No worker serves a job"} command=${text ? "" : "hub jobs"}>
      ${text ? "" : "A worker registers the jobs it serves; see the manual's page on jobs."}</${Empty}>`}/></section></${Shown}>
    <${Shown} from=${workers}>
      <section><h2>Workers</h2>
        ${workers.data && html`<${Table} caption="Workers" rows=${workers.data.workers} id=${(/** @type {any} */ w) => w.id} columns=${[
      { head: "Worker", grow: true,
        cell: (/** @type {any} */ w) => html`<a class="id" title=${w.id} href=${to(["why", "worker", w.id])}><code>${w.id}</code></a>` },
      { head: "State",
        cell: (/** @type {any} */ w) => html`<${State} state=${silent(w) ? "suspect" : "alive"} text=${silent(w) ? "silent" : "alive"}/>` },
      { head: "Last beat", num: true, time: true,
        cell: (/** @type {any} */ w) => (w.sinceBeatMs === null ? "–" : `${span(w.sinceBeatMs / 1000)} ago`) },
      { head: "Holds", num: true, less: true, cell: (/** @type {any} */ w) => num(w.tasks) },
      { head: "Jobs", less: true,
        cell: (/** @type {any} */ w) => w.jobs.slice(0, 3)
          .map((/** @type {string} */ j) => html`<a class="tag" key=${j} href=${to(["jobs", j])}>${parted(j)}</a>`) },
      ...(may("dead") && may("moveTasks")
        ? [{ head: html`<span class="hidden">Act</span>`,
          cell: (/** @type {any} */ w) =>
            html`<button type="button" class="quiet" aria-label=${`Remove worker ${w.id}`} onClick=${() => remove(w)}>Remove…</button>` }]
        : []),
    ]} empty=${html`<p class="faint">No worker is there.</p>`}/>
      <${Pager} offset=${offset} limit=${LIMIT} total=${workers.data.total}/>`}</section></${Shown}>`;
}

/** @param {{full: string}} props */
function Job({ full }) {
  const found = useData(`console/jobs/${part(full)}`, KINDS, 5);
  const job = found.data;
  return html`<${Head} title=${full} crumbs=${html`<a href="#/jobs">Jobs and workers</a>`}>
    <${AsOf} at=${found.at}/><a class="button" href=${to(["tasks"], { status: "pending", job: full })}>Its pending tasks</a>
      <a class="button" href=${to(["why", "job", full])}>Why</a></${Head}>
    <${Shown} from=${found}>
      ${job && html`<${Facts}
        of=${[["Room", job.roomId], ["Category", job.category], ["Name", job.name], ["Pending", num(job.pending)],
          ["Workers", job.workers.map((/** @type {string} */ w) =>
            html`<a class="tag" key=${w} href=${to(["why", "worker", w])}>${w}</a>`)],
          ["Needs", job.needs && html`<${Wants} of=${{ ...job, parts: job.needs }}/>`],
          ["Limits", job.limits?.map((/** @type {any} */ l) => `${l.rate ?? `${l.running} running`}${l.key ? ` by ${l.key}` : ""}`)
            .join(", ")]]}/>
      <section><${Block} level="h2" name="Schema" text=${pretty(job.schema)}/></section>
      ${job.resultSchema && html`<section><${Block} level="h2" name="Schema of results" text=${pretty(job.resultSchema)}/></section>`}`}
    </${Shown}>`;
}
