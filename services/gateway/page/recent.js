/** A user's most recent plays. */

import { nameInto } from "./bars.js";
import { h, keyed, setText } from "./dom.js";
import { ago, dateTime } from "./format.js";

const SHOWN = 10;

/** A list of plays; `set(plays)` changes it, `ages()` brings its times up to date. */
export function recent() {
  const element = h("ol", { class: "recent" });
  const ages = () => element.querySelectorAll("time").forEach((time) => setText(time, ago(Number(time.dataset.time))));
  const set = (plays) => keyed(element, plays.slice(0, SHOWN), (play) => `${play.timestamp}:${play.trackId}`, row, update);
  return { element, set, ages };
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
