/** The page: one view for each address after the #, so that every view can be linked to. */

import { get } from "./api.js";
import { h, setText } from "./dom.js";
import { explore } from "./explore.js";
import { home } from "./home.js";
import { poll, setSilent } from "./live.js";
import { profiles } from "./profiles.js";
import { system } from "./system.js";
import { user } from "./user.js";

/** A view gets the element to fill and what its address names; it returns what ends it. */
const VIEWS = [
  [/^#\/users\/(\d+)$/, user, "#/"],
  [/^#\/system$/, system, "#/system"],
  [/^#\/profiles$/, profiles, "#/profiles"],
  [/^#\/explore(?:\?(.*))?$/, explore, "#/explore"],
  [/^/, home, "#/"],
];

const main = document.getElementById("main");
const silence = h("p", { class: "note silence", role: "alert", hidden: "" });
let leave = () => {};

function show() {
  leave();
  const [pattern, view, section] = VIEWS.find(([pattern]) => pattern.test(location.hash));
  const part = location.hash.match(pattern)[1] ?? "";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren();
  leave = view(main, part) ?? (() => {});
  document.title = `${main.querySelector("h1")?.textContent ?? ""} · User profiles`;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
function tellSilence({ kafka }) {
  silence.hidden = !kafka;
  setText(silence, kafka ? `Kafka ${kafka}: these pages show the state of that time.` : "");
  setSilent(Boolean(kafka));
}

main.before(silence);
poll(() => get("readyz"), tellSilence, () => {});
addEventListener("hashchange", () => {
  show();
  // A screen reader goes on in the new view.
  main.focus();
});
document.body.append(h("footer", {}, "Every event counts once. ", h("a", { href: "openapi.json" }, "OpenAPI document")));
show();
