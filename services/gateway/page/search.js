/** The search box for users, with a sample of those whose ids begin with what was typed. */

import { get } from "./api.js";
import { h, keyed } from "./dom.js";

const PAUSE_MS = 120;

/** A form that goes to the user whose id is typed. */
export function search(id = "") {
  const input = h("input", {
    id: "user-id", type: "search", inputmode: "numeric", pattern: "[0-9]{1,19}", required: "", value: id,
    autocomplete: "off", placeholder: "e.g. 123", "aria-describedby": "samples-title", oninput: suggest,
  });
  const title = h("span", { id: "samples-title", class: "quiet" }, "");
  const samples = h("ul", { class: "samples" });
  let timer, asked = 0;

  function suggest() {
    clearTimeout(timer);
    timer = setTimeout(fetchSamples, PAUSE_MS);
  }

  async function fetchSamples() {
    const prefix = input.value.trim(), turn = ++asked;
    if (!/^\d*$/.test(prefix)) return;
    const users = await get(`v1/users?limit=8${prefix && `&prefix=${prefix}`}`).then((found) => found.users, () => []);
    // An older question may be answered after a newer one.
    if (turn !== asked) return;
    title.textContent = users.length ? (prefix ? `Some users that begin with ${prefix}:` : "Some users:") : "";
    keyed(samples, users, String, (user) => h("li", {}, h("a", { href: `#/users/${user}` }, user)), () => {});
  }

  function go(event) {
    event.preventDefault();
    location.hash = `#/users/${input.value.trim()}`;
  }

  fetchSamples();
  return h("form", { class: "search", role: "search", onsubmit: go },
    h("label", { for: "user-id" }, "User id"),
    h("div", { class: "field" }, input, h("button", { type: "submit" }, "Show")),
    h("div", { class: "suggested" }, title, samples));
}
