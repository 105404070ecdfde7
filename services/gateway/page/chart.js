/** Small line charts of the last two minutes. */

import { h, setText, svg } from "./dom.js";

const SAMPLES = 120;
const LEAST_SAMPLES = 20;
const WIDTH = 240;
const HEIGHT = 44;

/** A chart called `name`; `text` shows a value. `add(value)` draws the next sample, null where there is none. */
export function chart(name, text) {
  const values = [];
  const value = h("span", { class: "value" }, "–");
  const line = svg("path", { class: "line" }), area = svg("path", { class: "area" });
  const box = `0 0 ${WIDTH} ${HEIGHT}`;
  const drawing = svg("svg", { viewBox: box, preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);

  function add(sample) {
    values.push(sample ?? null);
    if (values.length > SAMPLES) values.shift();
    setText(value, sample == null ? "–" : text(sample));
    const path = linePath(values);
    line.setAttribute("d", path);
    const from = x(values, values.findIndex((each) => each !== null));
    area.setAttribute("d", path && `${path}L${WIDTH} ${HEIGHT}L${from} ${HEIGHT}Z`);
  }

  const element = h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, name), value), drawing);
  return { element, add };
}

/** Until there are samples for two minutes, those that there are fill the width. */
const x = (values, place) => WIDTH * (1 - (values.length - 1 - place) / (Math.max(LEAST_SAMPLES, values.length) - 1));

/** The newest value is at the right; the top is the greatest value. */
export function linePath(values) {
  const most = Math.max(1, ...values);
  const points = values
    .map((value, place) => [x(values, place), HEIGHT - 2 - ((HEIGHT - 6) * value) / most, value])
    .filter(([, , value]) => value !== null);
  return points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}
