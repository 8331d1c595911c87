// The building blocks of every module: Preact, its hooks, and htm for markup.
import { h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { render };

/** Markup as a tagged template. @type {(parts: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/** Class names that are wanted. @param {...(string|false|null|undefined)} names */
export const cls = (...names) => names.filter(Boolean).join(" ");
