// Requests to the server that the page came from, with the key that was typed for it, which stays in this tab.
import {$} from "./elements.js";

const KEY = "latentd-key";
// Without the browser's own: it would ask for a password by itself where a key is missing.
let credentials = "omit";
let asked = null;

export class ServerError extends Error {
  constructor(status, error) {
    super(error.message || `the server answers ${status}`);
    this.status = status;
    this.violations = error.latentd?.violations ?? [];
  }
}

async function errorOf(answer) {
  const text = await answer.text();
  try {
    return new ServerError(answer.status, JSON.parse(text).error);
  } catch {
    return new ServerError(answer.status, {});
  }
}

// True once a key was typed; false: none was. Requests that come meanwhile share the question.
function askForKey(reason) {
  asked ??= new Promise((tell) => {
    const done = (typed) => {
      if (typed) sessionStorage.setItem(KEY, $("key").value);
      $("key").value = "";
      $("key-dialog").onclose = null;
      $("key-dialog").close();
      asked = null;
      tell(typed);
    };
    $("key-reason").textContent = reason;
    $("key-form").onsubmit = (event) => {
      event.preventDefault();
      done(true);
    };
    $("key-cancel").onclick = () => done(false);
    // The event of a dialog that was closed comes later, perhaps when the next question is already there.
    $("key-dialog").onclose = () => {
      if (!$("key-dialog").open) done(false);
    };
    $("key-dialog").showModal();
  });
  return asked;
}

// The answer where it is a good one; else throws a ServerError. `quiet` asks for no key.
export async function ask(path, {quiet = false, ...options} = {}) {
  const key = sessionStorage.getItem(KEY);
  const headers = {...options.headers, ...(key && {Authorization: `Bearer ${key}`})};
  const answer = await fetch(path, {...options, headers, credentials, cache: "no-store"}).catch((error) => {
    throw error instanceof TypeError ? new ServerError(0, {message: "the server cannot be reached"}) : error;
  });
  if (answer.ok) return answer;
  const error = await errorOf(answer);
  if (error.status !== 401 || quiet) throw error;
  if (/client certificate/.test(error.message)) {
    if (credentials !== "omit") throw error;
    credentials = "same-origin";
  } else if (!await askForKey(error.message)) {
    throw error;
  } else {
    document.dispatchEvent(new Event("key"));
  }
  return ask(path, options);
}

export const get = async (path, options) => (await ask(path, options)).json();

// Calls take(name, text) for each event of a stream.
export async function readEvents(answer, take) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let from = 0;
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n", from)) >= 0; from = 0) {
      const event = /^event: (.*)\ndata: ([^]*)$/.exec(rest.slice(0, end));
      rest = rest.slice(end + 2);
      if (event) take(event[1], event[2]);
    }
    from = Math.max(0, rest.length - 1);
  }
}
