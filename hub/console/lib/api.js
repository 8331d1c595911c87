// Calls of the hub. Every answer says when it came; every refusal is a sentence.

export const AGAIN_MS = 2_000; // until a call in vain is repeated
const TIMEOUT_MS = 10_000;
const NEUTRAL = { accept: "application/vnd.capacity-hub+json" };

/** A refusal of the hub. `status` 0: it did not answer. */
export class Refused extends Error {
  /** @param {number} status @param {string} code @param {string} said */
  constructor(status, code, said) {
    super(said);
    this.status = status;
    this.code = code;
  }

  /** Whether the hub answers, but its store does not. */
  get storeAway() {
    return this.status === 503 && this.code === "store-unavailable";
  }

  get silent() {
    return this.status === 0;
  }

  /** Whether the same call may succeed soon. */
  get troubled() {
    return this.silent || this.status >= 500;
  }
}

/** How far the clock of the store is ahead of this machine's, in ms. */
export const clock = { ahead: 0 };

/** How old answers were when they came, in ms: others had asked the same. @type {WeakMap<object, number>} */
const ages = new WeakMap();
/** @param {any} answer */
export const ageOf = (answer) => (typeof answer === "object" && ages.get(answer)) || 0;

/** Note the time of the store that an answer tells, which was so old when it came. @param {string} now @param {number} age */
export const noteTime = (now, age) => (clock.ahead = Date.parse(now) + age - Date.now());

/** Now, by the clock of the store. */
export const storeNow = () => Date.now() + clock.ahead;

/** A part of a path. @param {string} text */
export const part = (text) => encodeURIComponent(text);

/** Return a query without its empty members. @param {Record<string, any>} members */
export function query(members) {
  const found = Object.entries(members).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return found.length ? `?${new URLSearchParams(found.map(([name, value]) => [name, String(value)]))}` : "";
}

/** Read from the hub. @param {string} path @param {{signal?: AbortSignal}} [more] @returns {Promise<any>} */
export const get = (path, more = {}) => call("GET", path, undefined, {}, more);

/**
 * Make a change, and return the answer of the hub. `key`: repeats with it are one change; `ms`: how long it may take.
 * @param {string} method @param {string} path @param {any} [body] @param {string} [reason] @param {{key?: string, ms?: number}} [more]
 */
export function send(method, path, body, reason, { key, ms } = {}) {
  const headers = { "x-hub-console": "1", ...(reason ? { "x-hub-reason": encodeURIComponent(reason) } : {}),
    ...(key ? { "idempotency-key": key } : {}) };
  return call(method, path, body === undefined && method !== "DELETE" ? {} : body, headers, { ms });
}

/**
 * @param {string} method @param {string} path @param {any} body
 * @param {Record<string,string>} headers @param {{signal?: AbortSignal, ms?: number}} more
 */
async function call(method, path, body, headers, more) {
  // A browser resolves such parts of a path, even when they are escaped.
  if (/(^|\/)\.{1,2}(?=\/|\?|$)/.test(path)) {
    throw new Refused(400, "no-path", "A browser cannot ask for an id that is . or .., but the hub command can.");
  }
  const limit = AbortSignal.timeout(more.ms ?? TIMEOUT_MS);
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: { ...NEUTRAL, ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: more.signal ? AbortSignal.any([more.signal, limit]) : limit,
      credentials: "same-origin",
      cache: "no-store",
    });
    const text = await answer.text();
    if (!answer.ok) throw refusal(answer.status, text);
    const found = answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text;
    const age = Number(answer.headers.get("x-hub-age-ms"));
    if (Date.parse(found?.now)) noteTime(found.now, age);
    if (age && found) ages.set(found, age);
    return found;
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (more.signal?.aborted) throw error;
    throw new Refused(0, "silent", "The hub does not answer.");
  }
}

/** @param {number} status @param {string} text */
function refusal(status, text) {
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    said = {};
  }
  const code = said.code ?? String(said.type ?? "").split("/").pop() ?? "";
  const detail = typeof said.detail === "string" ? said.detail : "";
  /** @type {Record<number, string>} */
  const plain = { 401: "This credential does not open it, or the login is over.", 404: "There is no such thing." };
  return new Refused(status, code, detail && detail !== "Unauthorized" ? detail
    : plain[status] ?? said.title ?? `The hub answered ${status}.`);
}
