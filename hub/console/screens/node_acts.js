// States of nodes, and the acts of operators on one or many of them.
import { part, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { span } from "../lib/parts.js";

/** How a node is, in the words of the page. @param {any} node */
export const stateOf = (node) => (node.kept && node.state !== "stale" ? "silent" : node.state === "stale" ? "silent" : node.state);

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
