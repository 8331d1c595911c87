// Who looks, and what he may. The server decides; this only keeps the page from offering what would be refused.
import { get } from "./api.js";
import { useEffect, useState } from "./dom.js";

/** @typedef {{mode: string, realm: string, realms: string[], open: boolean, login: any, role: string, may: Record<string, boolean>, version: string, secure: boolean}} Me */
/** @type {Me|null} */
let me = null;
/** Whether there was a login here, and there is none any more. */
export let over = false;
/** @type {Set<() => void>} */
const views = new Set();

/** Ask who I am. */
export async function askMe() {
  try {
    const found = await get("console/me");
    over = Boolean((me?.login || over) && !found.login);
    me = found;
  } catch {
    // what the page knew holds until the hub says otherwise
  }
  views.forEach((view) => view());
  return me;
}

/** He goes by himself: nobody needs to be told that the login is over. */
export function leave() {
  if (me) me = { ...me, login: null };
}

setInterval(() => document.hidden || !me?.login || askMe(), 15_000); // any refusal of what is shown asks at once

/** @returns {Me|null} */
export function useMe() {
  const [, draw] = useState(0);
  useEffect(() => {
    const view = () => draw((n) => n + 1);
    views.add(view);
    return () => views.delete(view);
  }, []);
  return me;
}

/** Whether this may be offered. @param {string} right */
export const may = (right) => Boolean(me?.may?.[right]);
