/** Numbers and times as text. */

import { setText } from "./dom.js";

const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumSignificantDigits: 3 });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const count = (number) => whole.format(number);
export const compact = (number) => short.format(number);
export const dateTime = (time) => moment.format(new Date(time));
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** The name of a member as words: `lastSeen` and `last_seen` are "Last seen". */
export function words(name) {
  const text = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replaceAll("_", " ").trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const INSTANT = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** The time that a value is, in ms: an instant of ISO 8601, or a number of the size of the years 2001 to 2286; else null. */
export function timeOf(value) {
  if (typeof value === "string" && INSTANT.test(value)) return Date.parse(value);
  return value >= 1e12 && value < 1e13 ? value : null;
}

/** Show a value as text: a time, or a number by `text`. */
export function valueInto(element, value, text = count) {
  const time = text === count ? timeOf(value) : null;
  element.title = time === null ? "" : dateTime(time);
  if (time === null) delete element.dataset.time;
  else element.dataset.time = time;
  setText(element, time !== null ? ago(time) : typeof value === "number" ? text(value) : value ?? "–");
}

/** How long a number of milliseconds is. */
export function duration(milliseconds) {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(milliseconds / 60_000);
  return minutes < 60 ? `${minutes} min` : `${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

const IN_MS = /(Ms|_ms)$/;

/** How to show the numbers of a field: durations where its name ends with their unit. */
export const textOf = (field) => (IN_MS.test(field) ? duration : count);

/** A number of bytes. */
export function bytes(number) {
  const [size, unit] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([size]) => number >= size) ?? [1, "B"];
  return `${compact(number / size)} ${unit}`;
}

/** When something happened, as seen from now: the date when it is longer ago than a day. */
export function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(time)) / 1_000));
  if (seconds < 3) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3_600)} h ago` : day.format(new Date(time));
}
