// Stuck records: their work was begun and never ended.
import { get, part, query, send } from "../lib/api.js";
import { ask } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time, some } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Empty, Head, Shown, State, num, span } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";

const LIMIT = 1000;

/** @param {string} source @param {string[]|null} ids null: all that are stuck now @param {() => void} [after] */
function reset(source, ids, after) {
  ask({
    title: ids ? `Reset these records of ${source}?` : `Reset all that is stuck in ${source}?`,
    load: ids ? undefined : async () => {
      const found = await get(`console/stuck/${part(source)}?limit=${LIMIT}`);
      return { list: found.records.map((/** @type {any} */ r) => r.id),
        what: html`<p>
          A dry run: these ${some(found.records.length, "record")} would be reset, so that they are worked on again. Those that have
            used up their attempts fail for good.</p>` };
    },
    what: html`<p>
      They are reset, so that they are worked on again. Those that have used up their attempts fail for good; a record that is not stuck any
        more is left alone.</p>`,
    list: ids ?? undefined, one: "record", after, verb: "Reset",
    run: (reason, list) => send("POST", `console/stuck/${part(source)}/reset`, { ids: list }, reason),
    done: (result) =>
      `${some(result.reset.length,
        "record")} of ${source} reset, ${num(result.failed.length)} failed for good, ${num(result.notStuck.length)} left alone.`,
  });
}

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Stuck({ route }) {
  const source = route.path[1];
  return source ? html`<${Source} source=${source}/>` : html`<${List}/>`;
}

function List() {
  const found = useData("console/stuck", ["sweep", "task"], 5);
  const data = found.data;
  return html`<${Head} title="Stuck records" about="Records whose work began and never ended, by source.">
    <${AsOf} at=${found.at}/></${Head}>
    <${Shown} from=${found}>
      ${data && html`${!data.enabled
        && data.sources.length > 0 && html`<p class="note">
          Cleaning is off (<code>HUB_ZOMBIE_CLEANUP_ENABLED=false</code>): no pass is made.</p>`}
      <${Table} caption="Sources" rows=${data.sources} id=${(/** @type {any} */ s) => s.name} columns=${[
        { head: "Source", grow: true, cell: (/** @type {any} */ s) => html`<a href=${to(["stuck", s.name])}>${s.name}</a>` },
        { head: "Alert", cell: (/** @type {any} */ s) => html`<${State} state=${s.level}/>` },
        { head: "Stuck now", num: true, cell: (/** @type {any} */ s) => (s.stuck === null ? "unknown" : num(s.stuck)) },
        { head: "Last pass",
          cell: (/** @type {any} */ s) => (s.atMs === null ? "not yet" : html`${num(s.found)} at <${Time} at=${s.atMs}/>`) },
        { head: "Before", less: true, cell: (/** @type {any} */ s) => s.before || "–" },
        { head: "Here", less: true, cell: (/** @type {any} */ s) => (s.here ? "this hub knows it" : "another hub declared it") },
      ]} empty=${html`<${Empty} title="No source is declared" command="hub recovery check --file sources.toml">
        A source names a table or a set of keys in which records may get stuck: <code>HUB_RECOVERY_FILE</code>. See
          the <a href="#/manual/recovery">manual on recovery</a>.</${Empty}>`}/>
      <p class="faint">
        A pass every ${num(data.intervalMinutes)} minutes; a warning above ${num(data.warningAbove)}, critical
          above ${num(data.criticalAbove)}.</p>`}</${Shown}>`;
}

/** @param {{source: string}} props */
function Source({ source }) {
  const chosen = useChosen();
  const found = useData(`console/stuck/${part(source)}${query({ limit: 200 })}`, ["sweep"], 5);
  const data = found.data;
  return html`<${Head} title=${source} crumbs=${html`<a href="#/stuck">Stuck records</a>`} about=${data
    ? `${some(data.total, "record")} not updated for more than ${span(data.thresholdSeconds)}, by the clock of their own store.` : ""}>
    <${AsOf} at=${found.at}/>
      ${data?.total > 0
        && may("operate") && html`<button type="button" onClick=${() => reset(source, null)}>Dry run and reset…</button>`}</${Head}>
    ${may("operate") && html`<${Bulk} chosen=${chosen} one="record">
      <button type="button" onClick=${() => reset(source, chosen.ids, chosen.none)}>Reset…</button></${Bulk}>`}
    <${Shown} from=${found}>
      ${data && html`<${Table} caption=${`Records that are stuck in ${source}`} rows=${data.records} id=${(/** @type {any} */ r) => r.id}
        chosen=${may("operate")
        ? chosen : null} columns=${[
      { head: "Record", grow: true, cell: (/** @type {any} */ r) => html`<code>${r.id}</code>` },
      { head: "Status", cell: (/** @type {any} */ r) => html`<${State} state="stale" text=${r.status}/>` },
      { head: "Stuck for", num: true, time: true, cell: (/** @type {any} */ r) => span(r.ageSeconds) },
      { head: "Updated", less: true, cell: (/** @type {any} */ r) => html`<${Time} at=${r.updatedAt}/>` },
      { head: "Resets", num: true, less: true, cell: (/** @type {any} */ r) => num(r.resets) },
    ]} empty=${html`<${Empty} title="Nothing is stuck here">The next pass looks again.</${Empty}>`}/>
      ${data.total > data.records.length && html`<p class="faint">
        The first ${num(data.records.length)} of ${num(data.total)}.</p>`}`}</${Shown}>`;
}
