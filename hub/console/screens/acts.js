// States of nodes and holds of slots, and the acts of operators on one or many of them.
import { part, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { State, Tags, span } from "../lib/parts.js";
import { to } from "../lib/router.js";

/** How a node is, in the words of the page. @param {any} node */
export const stateOf = (node) => (node.kept || node.state === "stale" ? "silent" : node.state);

/** Its last beat, also where only a sweep that may not expire keeps it. @param {any} node */
export const beat = (node) => (node.sinceBeatMs === null ? "never heard" : `${span(node.sinceBeatMs / 1000)} ago`);

/** @param {string[]} ids @param {() => void} [after] */
export function drain(ids, after) {
  ask({
    title: ids.length === 1 ? `Drain ${ids[0]}?` : "Drain these nodes?",
    what: html`<p>None of their slots is lent any more. Leases stay with their holders; undrain takes it back.</p>`,
    list: ids, one: "node", after, verb: "Drain", danger: ids.length > 1,
    fields: (set, values) =>
      html`<label class="field"><span>End leases that are left after (minutes; empty: never)</span>
        <input type="number" min="0" max="10080" value=${values.minutes ?? ""} onInput=${(/** @type {any} */ e) =>
          set({ minutes: e.target.value })}/></label>`,
    run: (reason, list, values) =>
      each(list, (id) =>
        send("POST", `admin/nodes/${part(id)}/drain`, values.minutes ? { deadlineSeconds: Number(values.minutes) * 60 } : {}, reason)),
    done: (result) => told(result, "node", "draining"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
export function cordon(ids, after) {
  ask({
    title: ids.length === 1 ? `Cordon ${ids[0]}?` : "Cordon these nodes?",
    what: html`<p>
      None of their slots is lent any more, and no lease ends. The reason is shown with the node; undrain takes it back.</p>`,
    list: ids, one: "node", after, verb: "Cordon", danger: ids.length > 1,
    run: (reason, list) => each(list, (id) => send("POST", `admin/nodes/${part(id)}/cordon`, { reason: reason.slice(0, 200) }, reason)),
    done: (result) => told(result, "node", "cordoned"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
export function undrain(ids, after) {
  ask({
    title: ids.length === 1 ? `Lend of ${ids[0]} again?` : "Lend of these nodes again?",
    what: html`<p>Their slots are lent again, at once.</p>`,
    list: ids, one: "node", after, verb: "Undrain", danger: false,
    run: (reason, list) => each(list, (id) => send("POST", `admin/nodes/${part(id)}/undrain`, {}, reason)),
    done: (result) => told(result, "node", "lending again"),
  });
}

const WHO = /** @type {Record<string, string>} */ ({ node: "its node", operator: "an operator" });

/** Who holds a slot, and why, and whether its lease is recalled; else nothing. @param {{of: any}} props */
export const Held = ({ of }) => html`${of.held && html`<${State} state="held" text="unwell"/>
  <span class="under">by ${WHO[of.heldBy]}: ${of.held}</span>`}${of.endsBy === "recall" && html`<${State} state="held" text="recalled"/>
  <span class="under">for a team below its guarantee</span>`}`;

/** The attributes of a slot, and what is warm in it. @param {{of: any}} props */
export const Has = ({ of }) => html`<${Tags} of=${of.attributes ?? {}}/>
  ${of.warm?.length > 0 && html`<span class="under">warm: ${of.warm.join(", ")}</span>`}`;

/** What a ticket wants, where that is more than its label. @param {{of: any}} props */
export const Wants = ({ of }) => (of.anyOf ?? of.parts) && html`<span class="under">
  ${(of.anyOf ?? of.parts).map((/** @type {any} */ w) => (w.count ? `${w.count} ` : "") + w.label + (w.where && ` where ${w.where}`))
    .join(of.parts ? " and " : " or ")}${of.sameNode && ", on one node"}</span>`;

/**
 * The holder of a lease or of a place in the queue: `ada (ml) · trainer`; where only its address is known, the run.
 * @param {{holder?: any, runName?: string, runId?: string}} of
 */
export function holderOf({ holder, runName, runId = "" }) {
  const user = holder?.user && `${holder.user}${holder.team ? ` (${holder.team})` : ""}`;
  const name = holder?.name !== (holder?.client || "unknown") && holder?.name;
  return [user, name].filter(Boolean).join(" · ") || runName || runId || holder?.name;
}

/** The same as a link to all leases of the run. @param {{of: any}} props */
export const Holder = ({ of }) => html`<a class="id" title=${`${holderOf(of)}, run ${of.runId}`}
  href=${to(["leases"], { by: "run", of: of.runId })}>${holderOf(of)}</a>`;

/** How many slots of a pool are held back for each reason: `2 unwell, 1 draining`. @param {any} pool */
export const because = (pool) => Object.entries(pool.heldBackBy ?? {}).map(([kind, number]) => `${number} ${kind}`).join(", ");

/** Hold slots back, or release them. @param {string[]} ids @param {boolean} on @param {() => void} [after] */
export function hold(ids, on, after) {
  ask({
    title: ids.length > 1 ? `${on ? "Hold" : "Release"} these slots?` : `${on ? "Hold" : "Release"} ${ids[0]}?`,
    what: html`<p>${on ? "Not lent until released. Leases stay with their holders, who are told the reason."
      : "Lent again at once, unless the node holds it too."}</p>`,
    list: ids, one: "slot", after, verb: on ? "Hold" : "Release", danger: on && ids.length > 1,
    run: (reason, list) => each(list, (id) => send(on ? "POST" : "DELETE", `admin/slots/${part(id)}/hold`,
      on ? { reason: reason.slice(0, 200) } : undefined, reason)),
    done: (result) => told(result, "slot", on ? "held back" : "released by operators"),
  });
}
