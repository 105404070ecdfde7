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

/** The name of a member as words: `lastSeen` is "Last seen". */
export function words(name) {
  const text = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Whether a number has the size of milliseconds since 1970, of the years 2001 to 2286. */
export const isTime = (value) => value >= 1e12 && value < 1e13;

/** Show a number, a time, or another value as text. */
export function valueInto(element, value) {
  if (isTime(value)) {
    element.dataset.time = value;
    element.title = dateTime(value);
  } else {
    delete element.dataset.time;
  }
  setText(element, isTime(value) ? ago(value) : typeof value === "number" ? count(value) : value ?? "–");
}

/** How long a number of milliseconds is. */
export function duration(milliseconds) {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  return milliseconds < 60_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : `${compact(milliseconds / 60_000)} min`;
}

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
