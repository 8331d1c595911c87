// Events, followed live, and the audit log.
import { get, query } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/dom.js";
import { Time } from "../lib/format.js";
import { listen } from "../lib/live.js";
import { AsOf, Choice, Empty, Filter, Head, Pager, Shown, State, Wrong, num } from "../lib/parts.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";
import { columns } from "./told.js";

const SHOWN = 200;
const AGAIN_MS = 2_000;
const TOGETHER_MS = 20; // events within this time are drawn at once; the hub sends them five times a second
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
  const [state,
    set] = useState({ events: /** @type {any[]|undefined} */ (undefined), error: /** @type {any} */ (null), at: 0, held: false });
  useEffect(() => {
    let over = false;
    const begins = kind ? BEGIN[kind] ?? [`${kind}.`] : [];
    /** @type {any[]|undefined} */
    let read;
    /** @type {any[]} */
    let heard = []; // the events since the list was asked for, newest first
    const show = () => {
      const known = new Set(heard.map((each) => each.id));
      const older = read?.filter((each) => !known.has(each.id));
      if (older) set((was) => ({ ...was, at: Date.now(), events: [...heard, ...older].slice(0, SHOWN) }));
    };
    let repeat = 0;
    const load = () => get(`history${query({ limit: SHOWN, kind })}`).then(
      (found) => {
        if (over) return;
        read = found.events;
        set((was) => ({ ...was, error: null }));
        show();
      },
      (error) => {
        if (over) return;
        set((was) => ({ ...was, error }));
        clearTimeout(repeat);
        repeat = setTimeout(load, AGAIN_MS);
      },
    );
    load();
    /** @type {any[]} */
    let early = [];
    let timer = 0;
    const stop = listen((event) => {
      if (!event.id) return (heard = []), void load();
      if (begins.length && !begins.some((begin) => event.event.startsWith(begin))) return;
      early.push(event);
      timer ||= setTimeout(() => {
        heard = [...early.reverse(), ...heard].slice(0, SHOWN);
        [early, timer] = [[], 0];
        show();
      }, TOGETHER_MS);
    });
    return () => {
      over = true;
      stop();
      clearTimeout(timer);
      clearTimeout(repeat);
    };
  }, [kind]);
  const rows = (state.events ?? []).filter((event) => !q || JSON.stringify(event).toLowerCase().includes(q.toLowerCase()));
  return html`<div class="filters"><${Choice} name="kind" value=${kind} label="Kind" of=${KINDS}/>
    <${Filter} name="q" value=${q} label="Contains"/><${AsOf} at=${state.at}/></div>
    ${state.error && html`<${Wrong} error=${state.error}/>`}
    ${state.events && html`<${Table} caption="Events, newest first" rows=${rows} id=${(/** @type {any} */ e) => e.id} columns=${columns}
      empty=${html`<${Empty} title="No such event" command="hub events --follow">
        The whole history was searched.</${Empty}>`}/>
      <p class="faint">The latest ${num(SHOWN)} of this kind.</p>`}`;
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
