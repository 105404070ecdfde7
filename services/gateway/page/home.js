/** Where a visitor begins: the search, how much there is, and a profile that moves. */

import { get } from "./api.js";
import { bars } from "./bars.js";
import { h, setText } from "./dom.js";
import { count, plural } from "./format.js";
import { follow, liveMark } from "./live.js";
import { search } from "./search.js";

const LOOK_MS = 2_000;
const SHOWN = 6;

/** The view of `#/`. */
export function home(main) {
  const plays = h("strong", {}, "");
  const total = h("p", { class: "total", hidden: "" }, plays, " plays so far, each counted once.");
  const example = h("section", { class: "example", hidden: "" });
  const ends = [];
  let left = false;

  async function look() {
    if (document.hidden) return;
    // Only the count is wanted: there are no days and hours that far ahead.
    const counted = await get(`v1/plays?from=${Date.now() + 86_400_000}`).catch(() => null);
    if (!counted) return;
    setText(plays, count(counted.count));
    total.hidden = false;
  }

  async function showExample() {
    const { users } = await get("v1/users?limit=1");
    if (users.length && !left) ends.push(follower(example, users[0]));
  }

  main.append(
    h("div", { class: "hero" },
      h("section", {},
        h("h1", {}, "What does a user listen to, right now?"),
        h("p", { class: "lead" }, "Every profile is up to date with each play: numbers, favourites, and what might be liked next."),
        search(), total),
      example));
  look();
  showExample().catch(() => {});
  const timer = setInterval(look, LOOK_MS);
  return () => {
    left = true;
    clearInterval(timer);
    ends.forEach((end) => end());
  };
}

/** Fill `example` with the favourites of a user as they change; returns what ends it. */
function follower(example, user) {
  const mark = liveMark(), list = bars("Artist"), number = h("p", { class: "quiet" });
  example.append(
    h("div", { class: "title" }, h("h2", {}, h("a", { href: `#/users/${user}` }, `User ${user}`)), mark.element),
    number, list.element);

  function show(profile) {
    example.hidden = !profile;
    if (!profile) return;
    setText(number, `${plural(profile.eventCount, "play")}. Most played:`);
    list.set(profile.topTenArtists.slice(0, SHOWN));
  }

  const path = `v1/users/${user}`;
  return follow(`${path}/stream?parts=metrics`, "profile", `${path}?parts=metrics`, show, mark.set);
}
