// The open view, as a link: `#/queue?label=gpu:a100`. Views and their filters can be sent to colleagues.
import { useEffect, useState } from "./dom.js";

/** @typedef {{path: string[], query: Record<string,string>, text: string}} Route */

/** @returns {Route} */
export function here() {
  const text = location.hash.replace(/^#\/?/, "");
  const at = text.indexOf("?");
  const path = (at < 0 ? text : text.slice(0, at)).split("/").filter(Boolean).map(plain);
  return { path, query: Object.fromEntries(new URLSearchParams(at < 0 ? "" : text.slice(at + 1))), text };
}

/** @param {string} text */
function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A link to a view. @param {string[]} path @param {Record<string, any>} [query] */
export function to(path, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = set.length ? `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${asked}`;
}

/** The console of a realm of this hub. @param {string} name */
export function consoleOf(name) {
  return location.pathname.replace(/realms\/[a-z0-9-]+\/$/, "") + (name === "default" ? "" : `realms/${name}/`);
}

/** Go there. @param {string} link */
export function go(link) {
  location.hash = link;
}

/** Change filters of this view without a step in the history. @param {Record<string, any>} changes */
export function refine(changes) {
  const { path, query } = here();
  history.replaceState(history.state, "", to(path, { ...query, ...changes }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Return the open view; a component that uses it is drawn anew when it changes. @returns {Route} */
export function useRoute() {
  const [route, set] = useState(here);
  useEffect(() => {
    const changed = () => set(here());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
