// Tables: rows keyed by id, columns that narrow screens hide, and choosing several rows.
import { cls, html, useMemo, useState } from "./dom.js";
import { some } from "./format.js";

/**
 * @typedef {{head: any, cell: (row: any) => any, num?: boolean, time?: boolean, less?: boolean, grow?: boolean}} Column
 *   `num`: figures, set right; `time`: a duration, whose column keeps its width while it grows; `less`: hidden on narrow screens;
 *   `grow`: takes the rest of the width
 */

/**
 * @param {{caption: string, columns: Column[], rows: any[], id: (row: any) => string, chosen?: Chosen|null, empty?: any}} props
 */
export function Table({ caption, columns, rows, id, chosen = null, empty = null }) {
  if (!rows.length && empty) return empty;
  const all = chosen && rows.length > 0 && rows.every((row) => chosen.has(id(row)));
  return html`<div class="rows" tabindex="0" role="region" aria-label=${caption}><table>
    <caption>${caption}</caption>
    <thead><tr>${chosen && html`<th scope="col" class="pick">
      <input type="checkbox" aria-label="Choose all that are shown" checked=${all} onChange=${() => chosen.all(rows.map(id), !all)}/></th>`}
      ${columns.map((column, at) =>
        html`<th key=${at} scope="col"
          class=${cls(column.num && "num", column.time && "time", column.less && "less", column.grow && "grow")}>
          ${column.head}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => {
      const key = id(row);
      return html`<tr key=${key} data-id=${key} class=${cls(chosen?.has(key) && "chosen")}>
        ${chosen && html`<td class="pick">
          <input type="checkbox" aria-label=${`Choose ${key}`} checked=${chosen.has(key)} onChange=${() => chosen.toggle(key)}/></td>`}
        ${columns.map((column, at) =>
          html`<td key=${at} class=${cls(column.num && "num", column.time && "time", column.less && "less", column.grow && "grow")}>
            ${column.cell(row)}</td>`)}</tr>`;
    })}</tbody></table></div>`;
}

/**
 * @typedef {{has: (id: string) => boolean, toggle: (id: string) => void, all: (ids: string[], on: boolean) => void, ids: string[],
 *   none: () => void}} Chosen
 */

/** Which rows are chosen: kept with the view in the history of the browser, over a reload and a step back. @returns {Chosen} */
export function useChosen() {
  const [set, keep] = useState(() => /** @type {Set<string>} */ (new Set(history.state?.chosen)));
  const change = (/** @type {(was: Set<string>) => Set<string>} */ next) =>
    keep((was) => {
      const now = next(was);
      history.replaceState({ ...history.state, chosen: [...now] }, "");
      return now;
    });
  return useMemo(
    () => ({
      has: (id) => set.has(id),
      ids: [...set],
      none: () => change(() => new Set()),
      toggle: (id) => change((was) => (was.has(id) ? new Set([...was].filter((each) => each !== id)) : new Set([...was, id]))),
      all: (ids, on) => change((was) => (on ? new Set([...was, ...ids]) : new Set([...was].filter((each) => !ids.includes(each))))),
    }),
    [set],
  );
}

/** The acts on the chosen rows. @param {{chosen: Chosen, one: string, children: any}} props */
export function Bulk({ chosen, one, children }) {
  if (!chosen.ids.length) return null;
  return html`<div class="bulk" role="region" aria-label="Chosen rows"><span>${some(chosen.ids.length, one)} chosen</span>${children}
    <button type="button" class="quiet" onClick=${chosen.none}>Choose none</button></div>`;
}
