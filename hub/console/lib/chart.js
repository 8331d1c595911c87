// A chart of the last hour, or of days, in the colours of the theme; the last values stand beside it as text.
import Plot from "../vendor/uplot.js";
import { html, useEffect, useLayoutEffect, useRef } from "./dom.js";

const HEIGHT = 130;
const clockText = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

const dayText = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

const probe = document.createElement("i");
probe.hidden = true;
document.body.append(probe);

/** A colour of the theme, as a canvas takes it. @param {string} name @param {number} [alpha] */
function colour(name, alpha = 1) {
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  return alpha === 1 ? found : found.replace(/^rgb\((.+)\)$/, `rgba($1, ${alpha})`);
}

/** @typedef {{name: string, tone: string, values: (number|null)[], fill?: boolean, dash?: number[]}} Line */

/** @param {{title: string, at: number[], lines: Line[], unit?: (value: number) => string, over?: string, days?: boolean}} props */
export function Chart({ title, at, lines, unit = String, over = "the last hour", days = false }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const data = [at, ...lines.map((line) => line.values)];
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const make = () => {
      plot.current?.destroy();
      plot.current = new Plot(options(element.clientWidth, lines, unit, days ? dayText : clockText), data, element);
    };
    make();
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resize.observe(element);
    const themes = new MutationObserver(make);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", make);
    return () => {
      resize.disconnect();
      themes.disconnect();
      system.removeEventListener("change", make);
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [at, ...lines.map((line) => line.values)]);
  const latest = (/** @type {Line} */ line) => line.values.findLast((value) => value !== null);
  const said = lines.map((line) => `${line.name} ${latest(line) == null ? "unknown" : unit(/** @type {number} */ (latest(line)))}`);
  return html`<figure class="chart"><figcaption><span>${title}</span><span class="keys">${lines.map(
    (line) => html`<span key=${line.name} class=${`key ${line.tone}`}>
      ${line.name} <b>${latest(line) == null ? "–" : unit(/** @type {number} */ (latest(line)))}</b></span>`,
  )}</span></figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${`${title}, ${over}. Now: ${said.join(", ")}.`}></div></figure>`;
}

/** @param {number} width @param {Line[]} lines @param {(value: number) => string} unit @param {Intl.DateTimeFormat} text */
function options(width, lines, unit, text) {
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false },
    font: "11px system-ui, sans-serif" };
  return {
    width: width || 300,
    height: HEIGHT,
    padding: [8, 20, 0, 0], // half of the last time stands to the right of its line
    cursor: { show: false },
    legend: { show: false },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) =>
      [0, Math.max(1, (high ?? 1) * 1.1)] } },
    axes: [
      { ...axis, size: 26, space: 90,
        values: (/** @type {any} */ _, /** @type {number[]} */ found) => found.map((s) => text.format(s * 1000)) },
      { ...axis, size: 48, space: 34, values: (/** @type {any} */ _, /** @type {number[]} */ found) => found.map(unit) },
    ],
    series: [{}, ...lines.map((line) => ({
      stroke: colour(line.tone), width: 1.75, dash: line.dash, spanGaps: true,
      // A point, because a single value makes no line.
      points: { size: 5, show: (/** @type {any} */ plot, /** @type {number} */ at) =>
        plot.data[at].filter((/** @type {any} */ value) => value !== null).length === 1 },
      fill: line.fill ? colour(line.tone, 0.13) : undefined,
    }))],
  };
}
