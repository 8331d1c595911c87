// Events, followed live, and the audit log.
import { query } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/dom.js";
import { Time } from "../lib/format.js";
import { listen } from "../lib/live.js";
import { AsOf, Choice, Empty, Filter, Head, Pager, Shown, State, num } from "../lib/parts.js";
import { newer } from "../lib/series.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";
import { columns } from "./told.js";

const SHOWN = 200;
const TOGETHER_MS = 20; // events within this time are drawn at once
/** @type {[string, string][]} */
const KINDS = [["", "All"], ["node", "Nodes"], ["pool", "Pools"], ["grant", "Leases"], ["ticket", "Tickets"], ["worker", "Workers"],
  ["task", "Tasks"], ["job", "Jobs"], ["schedule", "Schedules"], ["sweep", "Sweeps"]];
/** @type {Record<string, string[]>} */
const BEGIN = { pool: ["pool.", "slot.", "cap."], sweep: ["sweep.", "brake."] };

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Events({ route }) {
  const tab = route.path[1] === "audit" ? "audit" : "events";
  return html`<${Head} title=${tab === "audit" ? "Audit log" : "Events"} about=${tab === "audit"
    ? "Every change with its author and reason." : "Each event with the rule behind it; new ones appear at the top."}>
      <div class="choice" role="group" aria-label="List">
        <a class="button" aria-current=${tab === "events" ? "page" : undefined} href="#/events">Events</a>
        <a class="button" aria-current=${tab === "audit" ? "page" : undefined} href="#/events/audit">Audit log</a></div></${Head}>
    ${tab === "audit" ? html`<${Audit} route=${route}/>` : html`<${Follow} route=${route}/>`}`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
function Follow({ route }) {
  const { kind = "", q = "" } = route.query;
  const found = useData(`history${query({ limit: SHOWN, kind })}`, [], 0);
  const [heard, set] = useState({ events: /** @type {any[]} */ ([]), at: 0 });
  useEffect(() => {
    const begins = kind ? BEGIN[kind] ?? [`${kind}.`] : [];
    /** @type {any[]} */
    let early = [];
    let timer = 0;
    const stop = listen((event) => {
      if (!event.id || (begins.length && !begins.some((begin) => event.event.startsWith(begin)))) return;
      early.unshift(event);
      timer ||= setTimeout(() => {
        const some = early;
        [early, timer] = [[], 0];
        set((was) => ({ events: [...some, ...was.events].slice(0, SHOWN), at: Date.now() }));
      }, TOGETHER_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
      set({ events: [], at: 0 });
    };
  }, [kind]);
  const read = found.data?.events ?? [];
  const all = [...heard.events.filter((event) => newer(event.id, read[0]?.id ?? "")), ...read].slice(0, SHOWN);
  const rows = all.filter((event) => !q || JSON.stringify(event).toLowerCase().includes(q.toLowerCase()));
  return html`<div class="filters"><${Choice} name="kind" value=${kind} label="Kind" of=${KINDS}/>
    <${Filter} name="q" value=${q} label="Contains"/><${AsOf} at=${Math.max(found.at, heard.at)}/></div>
    <${Shown} from=${found}>
      <${Table} caption="Events, newest first" rows=${rows} id=${(/** @type {any} */ e) => e.id} columns=${columns}
        empty=${html`<${Empty} title="No such event" command="hub events --follow">
          The whole history was searched.</${Empty}>`}/>
      <p class="faint">The latest ${num(SHOWN)} of this kind.</p></${Shown}>`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
function Audit({ route }) {
  const { category = "", q = "" } = route.query;
  const offset = Number(route.query.offset ?? 0);
  const found = useData(`audit${query({ take: SHOWN + 1, skip: offset, category, q })}`, ["node", "sweep", "cap", "brake"], 3);
  const rows = (found.data ?? []).slice(0, SHOWN);
  return html`<div class="filters">
    <${Choice} name="category" value=${category} label="Category"
      of=${[["", "All"], ["console", "Console"], ["admin", "Operators"], ["node", "Nodes"], ["session", "Leases"],
        ["secrets", "Secrets"]]}/>
    <${Filter} name="q" value=${q} label="Contains"/><${AsOf} at=${found.at}/></div>
    <${Shown} from=${found}>
      <${Table} caption="Audit log, newest first" rows=${rows} id=${(/** @type {any} */ e) =>
        `${e.timestamp} ${e.action} ${JSON.stringify(e.details)}`} columns=${[
      { head: "When", cell: (/** @type {any} */ e) => html`<${Time} at=${e.timestamp}/>` },
      { head: "What",
        cell: (/** @type {any} */ e) =>
          html`<${State} state=${e.severity}
            text=${html`<code>
              ${e.action.split(".")
                .flatMap((/** @type {string} */ word, /** @type {number} */ at) => (at ? [".", html`<wbr/>`, word]
                  : [word]))}</code>`}/>` },
      { head: "Who", cell: (/** @type {any} */ e) => html`${e.actor ?? "–"}${e.by && html`<span class="under">${e.by}</span>`}` },
      { head: "From", less: true, cell: (/** @type {any} */ e) => e.remoteIp ?? "–" },
      { head: "Reason", grow: true, cell: (/** @type {any} */ e) => e.details?.reason ?? "–" },
      { head: "Details", grow: true, less: true,
        cell: (/** @type {any} */ e) =>
          html`<span class="tags">
            ${Object.entries(e.details ?? {}).filter(([name]) => name !== "reason")
              .map(([name, value]) => html`<span class="tag" key=${name}>${name} ${String(value)}</span>`)}</span>` },
    ]} empty=${html`<${Empty} title="No entry is like that">Entries are kept up to HUB_AUDIT_MAX_ENTRIES.</${Empty}>`}/>
      ${found.data && html`<${Pager} offset=${offset} limit=${SHOWN} total=${offset + found.data.length}/>`}</${Shown}>`;
}
