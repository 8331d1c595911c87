// Switches of operators at run time: expiry, brakes, caps.
import { get, part, send } from "../lib/api.js";
import { ask } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time, parted } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Facts, Head, Shown, State, num, some } from "../lib/parts.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";

const WORDS = { on: "Dead nodes are removed, by all hubs.",
  off: "Dead nodes stay registered: their slots are not lent, and none is removed.",
  default: "Each hub follows its own HUB_SWEEPER_EXPIRE again." };

/** The list of a dialog, where there is one. @param {string[]} list */
const named = (list) => (list.length ? { list } : {});

/** @param {"on"|"off"|"default"} to @param {any} now */
function expire(to, now) {
  ask({
    title: to === "default" ? "Clear the switch of expiry?" : `Switch expiry ${to}?`,
    load: async () => {
      const silent = await get("nodes?detail=1&state=stale&limit=1000"); // also nodes that are stale and kept
      const goes = silent.total > 0 && (to === "on" || (to === "default" && now.setting));
      const said = html`<b>${some(silent.total, "node")}</b> ${silent.total === 1 ? "is" : "are"} silent now`;
      return {
        what: html`<p>
          ${WORDS[to]} Now it is <b>${now.expire ? "on" : "off"}</b>, by ${now.source === "setting" ? "the setting"
            : `a switch of ${now.setBy}`}.</p>
          <p>${goes ? html`${said}. They are removed within half a minute, or as fast as the brake lets them, and their leases
            end:`
            : html`${said}; this removes none.`}</p>`,
        ...(goes ? { count: silent.total, ...named(silent.nodes.map((/** @type {any} */ n) => n.nodeId)) } : {}),
      };
    },
    one: "silent node", open: true, verb: to === "default" ? "Clear it" : `Switch ${to}`, danger: to === "on",
    run: (reason) => send("PUT", "admin/sweeper", { expire: to === "default" ? null : to === "on", by: "console" }, reason),
    done: () => "Switched, for all hubs.",
  });
}

/** @param {"nodes"|"workers"} of */
function release(of) {
  ask({
    title: `Release the brake on ${of}?`,
    load: async () => {
      if (of === "workers") {
        const found = await get("console/workers?silent=1&limit=1000");
        return { ...named(found.workers.map((/** @type {any} */ w) => w.id)), count: found.total,
          what: html`<p>
            All workers that are silent now are removed, on all hubs; their tasks fail or are tried again. These are silent:</p>` };
      }
      const found = await get("nodes?detail=1&state=stale&limit=1000");
      return { ...named(found.nodes.map((/** @type {any} */ n) => n.nodeId)), count: found.total,
        what: html`<p>All nodes that are silent now are removed, on all hubs, and their leases end. These are silent:</p>` };
    },
    one: of === "nodes" ? "node" : "worker", open: true, verb: "Release the brake",
    run: (reason) => send("POST", "admin/brake/release", { of, by: "console" }, reason),
    done: () => "The brake is released.",
  });
}

/** @param {string} label @param {any} [row] */
function cap(label, row) {
  ask({
    title: row ? `Change the cap of ${label === "*" ? "all other labels" : label}?` : "Set a cap?",
    what: html`<p>
      How many leases of a label may be live at once, for all hubs. A higher cap serves waiting borrowers at once; leases beyond a lower
        one stay. 0 is no limit, empty clears the cap of this label.</p>
      ${row && html`<p>
        Now: <b>${row.cap || "no limit"}</b> (${row.source})${row.inFlight === null || row.inFlight === undefined ? ""
          : `, ${num(row.inFlight)} live, ${num(row.waiting)} waiting`}.</p>`}`,
    verb: "Set the cap", danger: false,
    fields: (set, values) =>
      html`${!row && html`<label class="field"><span>Label</span>
        <input required value=${values.label ?? ""} onInput=${(/** @type {any} */ e) =>
          set({ ...values, label: e.target.value })}/></label>`}
      <label class="field"><span>Cap</span>
        <input type="number" min="0" value=${values.cap ?? ""} onInput=${(/** @type {any} */ e) =>
          set({ ...values, cap: e.target.value })}/></label>`,
    run: (reason, _, values) =>
      send("PUT", `admin/caps/${part(values.label || label)}`,
        { cap: values.cap === undefined || values.cap === "" ? null : Number(values.cap), by: "console" }, reason),
    done: ({ label: of, cap: most, inFlight }) => {
      const name = of === "*" ? "all other labels" : of;
      return most ? `The cap of ${name} is ${num(most)} now${inFlight == null ? "" : `; ${some(inFlight, "lease is", "leases are")} live`}.`
        : `There is no limit for ${name} now.`;
    },
  });
}

export default function Switches() {
  const sweeper = useData("admin/sweeper", ["sweep", "brake", "node"], 3);
  const workers = useData("admin/brake?of=workers", ["brake", "worker"], 5);
  const caps = useData("admin/caps", ["cap", "grant"], 5);
  const now = sweeper.data;
  const acts = may("operate");
  return html`<${Head} title="Switches and caps" about="Switches that hold for all hubs, with their author.">
    <${AsOf} at=${sweeper.at}/></${Head}>
    <${Shown} from=${sweeper}>${now && html`<section><h2>Expiry of dead nodes</h2>
      <${Facts} of=${[["Now", html`<${State} state=${now.expire ? "on" : "off"} text=${now.expire ? "on" : "off: dead nodes are kept"}/>`],
        ["Set by", now.source === "setting" ? "HUB_SWEEPER_EXPIRE of this hub" : `a switch by ${now.setBy}`],
        ["Since", now.setAt && html`<${Time} at=${now.setAt}/>`], ["The setting", now.setting ? "on" : "off"]]}/>
      ${acts && html`<div class="acts">
        <button type="button" disabled=${now.expire && now.source !== "setting"} onClick=${() => expire("on", now)}>Switch on…</button>
        <button type="button" disabled=${!now.expire && now.source !== "setting"} onClick=${() => expire("off", now)}>Switch off…</button>
        <button type="button" disabled=${now.source === "setting"} onClick=${() => expire("default", now)}>
          Back to the setting…</button></div>`}</section>
      <${Brake} of="nodes" brake=${now.brake}/>`}</${Shown}>
    ${workers.data && html`<${Brake} of="workers" brake=${workers.data}/>`}
    <${Shown} from=${caps}>
      ${caps.data && html`<section><h2>Caps</h2>
        <p>Without a cap of its own a label has: <b>
          ${caps.data.default
            || "no limit"}</b> (${caps.data.defaultSource}). ${acts && html`<button type="button" class="quiet" onClick=${() =>
              cap("*", { cap: caps.data.default, source: caps.data.defaultSource })}>Change…</button> <button type="button" onClick=${() =>
              cap("")}>Set a cap…</button>`}</p>
      <${Table} caption="Caps" rows=${caps.data.caps} id=${(/** @type {any} */ c) => c.label} columns=${[
        { head: "Label", grow: true, cell: (/** @type {any} */ c) => parted(c.label) },
          { head: "Cap", num: true, cell: (/** @type {any} */ c) => c.cap || "no limit" },
        { head: "Live", num: true, cell: (/** @type {any} */ c) => num(c.inFlight) },
          { head: "Waiting", num: true, less: true, cell: (/** @type {any} */ c) => num(c.waiting) },
          { head: "From", cell: (/** @type {any} */ c) => c.source },
        ...(acts ? [{ head: html`<span class="hidden">Act</span>`,
          cell: (/** @type {any} */ c) =>
            html`<button type="button" class="quiet" aria-label=${`Change the cap of ${c.label}`} onClick=${() => cap(c.label, c)}>
              Change…</button>` }]
          : []),
      ]} empty=${html`<p class="faint">No label has a cap of its own.</p>`}/></section>`}</${Shown}>`;
}

/** @param {{of: "nodes"|"workers", brake: any}} props */
function Brake({ of, brake }) {
  return html`<section><h2>Brake on ${of}</h2><${Facts} of=${[
    ["Now", html`<${State} state=${brake.state}/>`], ["Why", brake.why],
      ["Silent", brake.stale === null ? undefined : `${num(brake.stale)} of ${num(brake.registered)}`],
    ["Held back", brake.heldBack === null ? undefined : num(brake.heldBack)],
      ["Go per interval", brake.perInterval === null ? undefined : num(brake.perInterval)],
    ["Since", brake.since && html`<${Time} at=${brake.since}/>`], ["Released by", brake.releasedBy],
    ["It engages", `when more than ${num(brake.percent)} % of the ${of}, and at least ${num(brake.minimum)}, are silent at once`],
  ]}/>${brake.state === "engaged"
    && may("operate") && html`<div class="acts">
      <button type="button" class="danger" onClick=${() => release(of)}>Release the brake…</button></div>`}</section>`;
}
