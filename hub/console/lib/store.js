// The fetched data, by path: shared by all components that show it, marked dirty by events, fetched at most once a second. The
// overview comes with the events, and is fetched while none come.
import { AGAIN_MS, Refused, ageOf, get, noteTime } from "./api.js";
import { useEffect, useRef, useState } from "./dom.js";
import { listen, onOverview, stream, watch } from "./live.js";
import { askMe } from "./me.js";

const LEAST_MS = 1_000;
const CELLS_MAX = 60; // those shown least lately are dropped
const FIRST_MS = 60_000;
// The lists that an operator needs while the store is away: they are known as they were a minute ago, also if none was opened.
const FIRST = ["pools?limit=100&offset=0", "nodes?detail=1&limit=200", "sessions?limit=100&offset=0", "queue?limit=20&tickets=50&offset=0"];
const OVERVIEW = "console/overview";
const OVERVIEW_S = 2; // at most this often, as a busy hub has many events and many consoles
const HEARD_MS = 4_000; // the next overview should have come with the events by then
const ASKED_MS = 30_000; // the hub sends the overview for a minute after a browser has asked

/**
 * @typedef {{path: string, kinds: string[], every: number, data: any, error: Refused|null, at: number, asked: number,
 *   heard: number, busy: boolean, dirty: boolean, timer: number, views: Set<() => void>}} Cell
 */
/** @type {Map<string, Cell>} */
const cells = new Map();

/** @param {string} path @param {string[]} kinds @param {number} every */
function cellOf(path, kinds, every) {
  let cell = cells.get(path);
  if (!cell) {
    cell = { path, kinds, every, data: undefined, error: null, at: 0, asked: 0, heard: 0, busy: false, dirty: true, timer: 0,
      views: new Set() };
    for (const [old, { views }] of cells) if (cells.size >= CELLS_MAX && !views.size) cells.delete(old);
    cells.set(path, cell);
  }
  return cell;
}

/** Fetch it for all that show it, or as one of the first lists. @param {Cell} cell @param {boolean} [first] */
async function fetchCell(cell, first) {
  cell.timer = 0;
  if (cell.busy || !(cell.views.size || first)) return;
  cell.busy = true;
  cell.dirty = false;
  cell.asked = Date.now();
  try {
    cell.data = await get(cell.path);
    cell.at = Date.now() - ageOf(cell.data);
    cell.error = null;
  } catch (error) {
    const before = cell.error;
    if (cell.views.size) cell.error = error instanceof Refused ? error : new Refused(0, "silent", String(error));
    if (cell.error?.status === 401 && before?.status !== 401) askMe(); // the login may be over
  }
  cell.busy = false;
  cell.views.forEach((view) => view());
  plan(cell);
}

/** Fetch it when it is due: at once when dirty and a second has passed, else when it is old. @param {Cell} cell */
function plan(cell) {
  if (!cell.views.size || cell.busy || document.hidden) return;
  clearTimeout(cell.timer);
  const wait = cell.dirty ? LEAST_MS : cell.error?.troubled ? AGAIN_MS : cell.every * 1000;
  const told = !cell.dirty && Date.now() - cell.heard < HEARD_MS;
  const due = told ? Math.min(cell.heard + HEARD_MS, cell.asked + ASKED_MS) : cell.asked + wait;
  if (wait) cell.timer = setTimeout(() => fetchCell(cell), Math.max(0, due - Date.now()));
}

/** @param {(cell: Cell) => boolean} which */
function mark(which) {
  for (const cell of cells.values()) {
    if (which(cell) && !cell.dirty) {
      cell.dirty = true;
      plan(cell);
    }
  }
}

listen((event) => mark((cell) => !event.id || cell.kinds.some((kind) => event.event.startsWith(`${kind}.`))));
watch(() => {
  if (stream.state === "live") {
    setTimeout(fetchFirst, LEAST_MS);
    return mark(() => true);
  }
  const cell = cells.get(OVERVIEW);
  if (cell) plan(Object.assign(cell, { heard: 0 })); // no more of it comes with the events
});
onOverview(({ seen, ageMs }) => {
  const cell = cells.get(OVERVIEW);
  // Ignore an overview before the first is fetched, while one is being fetched, and when it is older than the one shown.
  if (!cell?.views.size || !cell.at || cell.busy || Date.parse(seen.now) < Date.parse(cell.data.now)) return;
  noteTime(seen.now, ageMs);
  Object.assign(cell, { data: seen, at: Date.now() - ageMs, heard: Date.now(), error: null });
  cell.views.forEach((draw) => draw());
  plan(cell);
});
document.addEventListener("visibilitychange", () => {
  // Also the cells that were dirty before: a cell without a view plans nothing.
  if (!document.hidden) for (const cell of cells.values()) plan(Object.assign(cell, { dirty: true }));
});

/** Fetch the first lists that nothing shows, once a minute. */
async function fetchFirst() {
  if (document.hidden || stream.state !== "live") return;
  for (const path of FIRST) {
    const cell = cellOf(path, [], 0);
    if (!cell.views.size && Date.now() - cell.at >= FIRST_MS) await fetchCell(cell, true);
  }
}
setInterval(fetchFirst, FIRST_MS / 4);

/** Fetch everything anew: something was changed here. */
export const refresh = () => mark(() => true);

/** Forget everything, for another user. */
export function forget() {
  for (const cell of cells.values()) Object.assign(cell, { data: undefined, error: null, at: 0, dirty: false });
  refresh();
  setTimeout(fetchFirst, LEAST_MS);
}

/** The time of the newest answer. */
export function newest() {
  let found = 0;
  for (const cell of cells.values()) if (cell.views.size) found = Math.max(found, cell.at);
  return found;
}

/** The error of the fetches that fail now, if any. */
export function trouble() {
  for (const { views, error } of cells.values()) if (views.size && error?.troubled) return error;
  return null;
}

/**
 * The data of a path, kept up to date. `kinds`: events that make it dirty; `every`: seconds after which it is old.
 * When the path changes, the data of the old path stays until the answer is in; then `earlier` is true.
 * @param {string|null} path @param {string[]} [kinds] @param {number} [every]
 * @returns {{data: any, error: Refused|null, at: number, earlier: boolean}}
 */
export function useData(path, kinds = [], every = 5) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const cell = Object.assign(cellOf(path, kinds, every), { kinds, every });
    const view = () => draw((n) => n + 1);
    cell.views.add(view);
    cell.dirty = true;
    cell.at ? plan(cell) : fetchCell(cell);
    return () => void cell.views.delete(view);
  }, [path]);
  const cell = path ? cells.get(path) : null;
  const before = useRef(/** @type {Cell|null} */ (null));
  const earlier = Boolean(path) && !cell?.at && !cell?.error && Boolean(before.current?.at);
  if (cell?.at || cell?.error) before.current = cell;
  const shown = earlier ? before.current : cell;
  return { data: shown?.data, error: shown?.error ?? null, at: shown?.at ?? 0, earlier };
}

/** The overview. */
export const useOverview = () => useData(OVERVIEW, [], OVERVIEW_S);
