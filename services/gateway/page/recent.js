/** A user's most recent plays. */

import { nameInto } from "./bars.js";
import { h, keyed, setText } from "./dom.js";
import { ago, dateTime } from "./format.js";

const SHOWN = 10;

/** A list of plays; `set(plays)` changes it, `ages()` brings its times up to date. */
export function recent() {
  const element = h("ol", { class: "recent" });
  const ages = () => element.querySelectorAll("time").forEach((time) => setText(time, ago(Number(time.dataset.time))));
  const set = (plays) => keyed(element, numbered(plays).slice(0, SHOWN), (play) => play.key, row, update);
  return { element, set, ages };
}

/** The same track may be played twice in a millisecond: the key of a play counts its repeats. */
function numbered(plays) {
  const seen = new Map();
  return plays.map((play) => {
    const base = `${play.timestamp}:${play.trackId}`, repeat = seen.get(base) ?? 0;
    seen.set(base, repeat + 1);
    return { ...play, key: `${base}:${repeat}` };
  });
}

function row() {
  return h("li", {},
    h("span", { class: "name" }), h("span", { class: "by" }, h("span"), " · ", h("span")), h("time"));
}

function update(row, play) {
  const [track, by, time] = row.children;
  nameInto(track, play.trackName, "Track", play.trackId);
  nameInto(by.firstChild, play.artistName, "Artist", play.artistId);
  nameInto(by.lastChild, play.albumName, "Album", play.albumId);
  time.dataset.time = play.timestamp;
  time.title = dateTime(play.timestamp);
  setText(time, ago(play.timestamp));
}
