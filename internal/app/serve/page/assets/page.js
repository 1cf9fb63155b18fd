// The live part of the pages. Everything can be read without it.
"use strict";

const $ = (id) => document.getElementById(id);

// say tells screen readers something.
function say(text) { $("said").textContent = text; }

// gone shows a line that stays on top; without a text it hides the line.
function gone(text) {
  $("gone").hidden = !text;
  $("gone").textContent = text || "";
}

// --- parts of a long tree, which are loaded when they are needed

async function load(url) {
  const answer = await fetch(url, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.text();
}

document.addEventListener("toggle", async (e) => {
  const details = e.target;
  const part = details.dataset && details.dataset.part;
  if (!part || !details.open) return;
  delete details.dataset.part;
  const list = details.querySelector("ul");
  try {
    list.innerHTML = await load(part);
  } catch {
    details.dataset.part = part; // the next time it may work
  }
}, true);

document.addEventListener("click", async (e) => {
  const link = e.target.closest("a[data-more]");
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  const row = link.closest("li");
  try {
    row.insertAdjacentHTML("beforebegin", await load(link.dataset.more));
    const next = row.previousElementSibling;
    row.remove();
    if (next) next.querySelector("a, summary")?.focus();
  } catch {
    location.href = link.href;
  }
});

// --- forms that leave the page as it is

document.addEventListener("submit", async (e) => {
  const form = e.target;
  if (!("quiet" in form.dataset)) return;
  e.preventDefault();
  if (form.dataset.ask && !confirm(form.dataset.ask)) return;
  const data = new URLSearchParams(new FormData(form, e.submitter));
  const buttons = form.querySelectorAll("button");
  buttons.forEach((b) => { b.disabled = true; });
  try {
    const answer = await fetch(form.action, { method: "POST", body: data, headers: { Accept: "text/plain" } });
    const text = await answer.text();
    note(form, text, !answer.ok);
    if (answer.ok) form.querySelectorAll("textarea").forEach((t) => { t.value = ""; });
  } catch {
    note(form, "qq serve does not answer.", true);
  }
  buttons.forEach((b) => { b.disabled = false; });
});

// note says beside a form what came of it.
function note(form, text, bad) {
  let line = form.nextElementSibling;
  if (!line || !line.matches(".outcome")) {
    line = document.createElement("span");
    line.className = "outcome";
    form.after(line);
  }
  line.className = "outcome quiet" + (bad ? " error" : "");
  line.textContent = text;
  say(text);
  setTimeout(() => line.remove(), 8000);
}

// --- times that go on

function clock(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d${two(Math.floor(s / 3600) % 24)}h`;
}

setInterval(() => {
  if (document.hidden) return;
  const now = Date.now();
  for (const el of document.querySelectorAll("[data-since]")) {
    const text = clock(now - Number(el.dataset.since));
    if (el.textContent !== text) el.textContent = text;
  }
}, 1000);

// --- what happens now

// state shows a state, for example of a job.
function state(el, [kind, word]) {
  if (!el || el.textContent === word && el.classList.contains(kind)) return;
  el.className = "state " + kind;
  el.textContent = word;
}

// write sets the text of an element, and touches it only if it differs.
function write(el, text) {
  if (el && el.textContent !== text) el.textContent = text;
}

// since sets from when on a time goes on; 0 stops it at text.
function since(el, from, text) {
  if (!el) return;
  if (from) el.dataset.since = from;
  else {
    delete el.dataset.since;
    write(el, text);
  }
}

// job shows what is new about a job in one row.
function job(row, j) {
  const body = row.querySelector(":scope > details > summary, :scope > .leaf");
  state(body.querySelector(".state"), j.state);
  since(body.querySelector(".time"), j.since, j.time);
  write(body.querySelector(".tokens"), j.tokens);
  const below = body.querySelector(".below");
  write(below, j.below);
  below.classList.toggle("error", Boolean(j.failed));
}

// work shows the jobs at work: those of the list, in its order.
function work(list) {
  const ul = $("working");
  if (!ul) return;
  const known = new Map([...ul.children].map((li) => [li.dataset.job, li]));
  let before = null;
  for (const j of list) {
    let li = known.get(j.id);
    known.delete(j.id);
    if (!li) {
      const t = document.createElement("template");
      t.innerHTML = j.html;
      li = t.content.firstElementChild;
    } else job(li, j);
    const at = before ? before.nextElementSibling : ul.firstElementChild;
    if (at !== li && !li.contains(document.activeElement)) ul.insertBefore(li, at);
    before = li;
  }
  for (const li of known.values()) li.remove();
  $("work").hidden = list.length === 0;
}

// questions shows the open questions: those of the list.
function questions(list) {
  const box = $("questions");
  if (!box) return;
  const known = new Map([...box.children].map((q) => [q.id, q]));
  for (const q of list) {
    const old = known.get("q-" + q.id);
    known.delete("q-" + q.id);
    if (old && ("later" in old.dataset) === Boolean(q.later)) continue;
    const t = document.createElement("template");
    t.innerHTML = q.html;
    if (old) old.replaceWith(t.content);
    else box.append(t.content);
    say("A question: " + q.summary);
  }
  for (const q of known.values()) q.remove();
}

const handlers = {
  runs(d) { // the list of runs
    const box = $("runs");
    const here = document.activeElement && document.activeElement.href;
    box.innerHTML = d.html;
    if (here) [...box.querySelectorAll("a")].find((a) => a.href === here)?.focus();
    questions(d.questions);
  },
  run(d) { // one run
    gone(d.gone);
    state($("status").querySelector(".state"), d.state);
    for (const [key, text] of Object.entries(d.facts)) {
      const el = $("fact-" + key);
      if (!el) continue;
      if (d.ended) delete el.dataset.since;
      if (!el.dataset.since) write(el, text);
      el.parentElement.hidden = !text && Boolean(d.ended);
    }
    if (d.top) $("jobs").innerHTML = d.top;
    for (const j of d.changed) {
      const row = $("j-" + j.id);
      if (row) job(row, j);
      else if (j.under !== undefined) place(j);
    }
    for (const el of document.querySelectorAll("[data-when]")) {
      el.hidden = !{ paused: d.paused, on: !d.paused, silent: d.silent }[el.dataset.when];
    }
    work(d.work);
    questions(d.questions);
    if (d.told) say(d.told);
    if (d.ended) stop(d.ended);
  },
  job(d) { // one job
    gone(d.gone);
    state($("status").querySelector(".state"), d.state);
    for (const [key, text] of Object.entries(d.facts)) write($("fact-" + key), text);
    write($("doing"), d.doing);
    if ($("live")) write($("live"), d.text);
    if (d.talk) {
      let list = $("talk");
      if (!list) {
        list = document.createElement("ol");
        list.id = "talk";
        list.className = "panel talk";
        $("transcript").after(list);
      }
      list.insertAdjacentHTML("beforeend", d.talk);
    }
    questions(d.questions);
    if (d.ended) stop(d.ended);
  },
};

// place adds a job that is new to the tree, if the list of those around it is there.
function place(j) {
  let ul = $("jobs");
  if (j.under) {
    const above = $("j-" + j.under);
    if (!above) return;
    let details = above.querySelector(":scope > details");
    if (!details) { // it had nothing below it so far
      const leaf = above.querySelector(":scope > .leaf");
      details = document.createElement("details");
      const summary = document.createElement("summary");
      summary.append(...leaf.childNodes);
      details.append(summary, document.createElement("ul"));
      details.open = true;
      leaf.replaceWith(details);
    }
    if (details.dataset.part) return; // it comes when the list is opened
    ul = details.querySelector("ul");
  }
  if (!ul || ul.children.length >= 100 || ul.querySelector(":scope > .more")) return;
  ul.insertAdjacentHTML("beforeend", j.html);
  ul.parentElement.querySelector(":scope > .none")?.remove();
}

let source = null;

function follow() {
  const url = document.body.dataset.events;
  if (!url || source || document.hidden) return;
  source = new EventSource(url);
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (e) => {
      handle(JSON.parse(e.data));
      document.body.dataset.live = "yes";
    });
  }
  source.onerror = () => {
    document.body.dataset.live = "no";
    gone("qq serve does not answer. What is shown is from before.");
  };
  source.onopen = () => gone("");
}

function rest() {
  if (source) source.close();
  source = null;
}

// stop ends the live part: nothing more will happen. The page is loaded again for what was recorded.
function stop(how) {
  rest();
  delete document.body.dataset.events;
  say("It has ended: " + how);
  document.querySelectorAll("#control, .actions form").forEach((el) => { el.hidden = true; });
  if (how !== "killed") setTimeout(() => location.reload(), 300);
}

// A page that nobody sees holds no connection: a browser has six for one server.
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
addEventListener("pagehide", rest);
addEventListener("pageshow", follow);
follow();

// --- keys

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  const step = { j: 1, k: -1 }[e.key];
  if (e.key === "/") {
    e.preventDefault();
    document.querySelector("input[type=search]").focus();
  } else if (step) {
    const all = [...document.querySelectorAll(".tree .task a, .runs .name")].filter((a) => a.checkVisibility());
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step];
    if (next) next.focus();
  } else if (e.key === "o") {
    document.activeElement.closest("summary")?.click();
  }
});
