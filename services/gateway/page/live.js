/** Data that moves: an event stream, and in its place the plain answer again and again while there is no stream. */

import { exact, get } from "./api.js";
import { h, setText } from "./dom.js";

const RETRY_MS = 2_000;

/**
 * Follow the stream at `path` whose events are called `event`; `plain` is the path of the same answer once.
 * `show(data)` gets each answer, `tell(state, problem)` whether this is "live", "polling" or "away".
 * A hidden page holds no stream. Returns what ends it.
 */
export function follow(path, event, plain, show, tell) {
  let source, timer, ended = false;

  function connect() {
    close();
    source = new EventSource(path);
    source.addEventListener("open", () => tell("live"));
    source.addEventListener(event, (message) => show(exact(message.data)));
    source.addEventListener("error", () => (source.readyState === EventSource.CLOSED ? instead() : tell("away")));
  }

  async function instead() {
    try {
      const data = await get(plain);
      if (!ended) show(data);
      if (!ended) tell("polling");
    } catch (problem) {
      if (!ended) tell("away", problem);
    }
    if (!ended && !document.hidden) timer = setTimeout(connect, RETRY_MS);
  }

  function close() {
    clearTimeout(timer);
    source?.close();
  }

  const seen = () => (document.hidden ? close() : connect());
  document.addEventListener("visibilitychange", seen);
  connect();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", seen);
    close();
  };
}

/**
 * Call `read` every 2 s while the page is seen. `show(data)` gets each answer, `tell(problem)` the reason for none.
 * Without the rights, it is called once. Returns what ends it.
 */
export function poll(read, show, tell) {
  let timer, ended = false;

  async function look() {
    if (!document.hidden) await read().then((data) => ended || show(data), (problem) => ended || refused(problem));
    if (!ended) timer = setTimeout(look, RETRY_MS);
  }

  function refused(problem) {
    ended = [401, 403].includes(problem.status);
    tell(problem);
  }

  look();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

const WORDS = {
  live: "live", silent: "Kafka does not answer", polling: "every 2 s", away: "reconnecting …", waiting: "connecting …",
};
let silent = false;

/** Whether Kafka does not answer: a live view then shows an old state. */
export const isSilent = () => silent;

/** Tell all marks whether Kafka does not answer. */
export function setSilent(now) {
  silent = now;
  document.querySelectorAll(`.mark[data-state=${now ? "live" : "silent"}]`).forEach((mark) => setMark(mark, "live"));
}

function setMark(element, state) {
  element.dataset.state = state === "live" && silent ? "silent" : state;
  setText(element.firstChild, WORDS[element.dataset.state]);
}

/** The small mark that says whether a view is live; `set(state)` changes it. */
export function liveMark() {
  const element = h("span", { class: "mark", role: "status", "data-state": "waiting" }, h("span", {}, WORDS.waiting));
  return { element, set: (state) => setMark(element, state) };
}
