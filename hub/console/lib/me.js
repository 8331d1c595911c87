// The user and the permissions. The server decides; the page only hides acts that would be refused.
import { AGAIN_MS, get } from "./api.js";
import { useEffect, useState } from "./dom.js";

/**
 * @typedef {{user: string|null, mode: string, realm: string, realms: string[], open: boolean, oidc: boolean, login: any,
 *   role: string, may: Record<string, boolean>, version: string, secure: boolean}} Me
 */
/** @type {Me|null} */
let me = null;
/** Whether a login of this tab has ended. */
export let over = false;
/** @type {Set<() => void>} */
const views = new Set();

/** Ask the hub for the user and the permissions. */
export async function askMe() {
  try {
    const found = await get("console/me");
    over = Boolean((me?.login || over) && !found.login);
    me = found;
  } catch {
    // The former answer holds until the hub gives another.
    if (!me) setTimeout(askMe, AGAIN_MS);
  }
  views.forEach((view) => view());
  return me;
}

/** Log out without a note that the login is over. */
export function leave() {
  if (me) me = { ...me, login: null };
}

setInterval(() => document.hidden || !me?.login || askMe(), 15_000); // a refusal (401) asks at once

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

/** The name of the credential of this login. */
export const credential = () => me?.login?.name ?? "open";

/** Whether this may be offered. @param {string} right */
export const may = (right) => Boolean(me?.may?.[right]);
