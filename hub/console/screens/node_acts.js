// How nodes are, and what operators do with them, one or many.
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
    what: html`<p>Nothing more of them is lent. What is lent stays with its holders; undrain takes it back.</p>`,
    list: ids, one: "node", after, verb: "Drain", danger: ids.length > 1,
    fields: (set, values) => html`<label class="field"><span>End what is still lent after (minutes; empty: never)</span><input type="number" min="0" max="10080" value=${values.minutes ?? ""} onInput=${(/** @type {any} */ e) => set({ minutes: e.target.value })}/></label>`,
    run: (reason, list, values) => each(list, (id) => send("POST", `admin/nodes/${part(id)}/drain`, values.minutes ? { deadlineSeconds: Number(values.minutes) * 60 } : {}, reason)),
    done: (result) => told(result, "node", "draining"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
export function cordon(ids, after) {
  ask({
    title: ids.length === 1 ? `Cordon ${ids[0]}?` : "Cordon these nodes?",
    what: html`<p>Nothing more of them is lent, and nothing that is lent ends. The reason is shown wherever the node is; undrain takes it back.</p>`,
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
