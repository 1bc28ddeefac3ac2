"use strict";
// Shows what is new every few seconds. A page with a form is never changed under the reader's hand: a notice says so.
const PAUSE = 3000;
const PATIENCE = 10000;
const page = document.documentElement;
const lost = document.getElementById("lost");
const news = document.getElementById("news");

async function look() {
  const known = { "If-None-Match": page.dataset.stamp };
  const reply = await fetch(location.href, { headers: known, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  lost.hidden = reply.ok || reply.status === 304;
  if (!reply.ok) return;
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  if (document.querySelector("main form, main:focus-within")) {
    const forms = (from) => [...from.querySelectorAll("main article")].map((one) => one.id + one.querySelector("[name=shown]").value + one.querySelector("[name=seen]").value).join();
    news.hidden = forms(fresh) === forms(document);
    return;
  }
  page.dataset.stamp = fresh.documentElement.dataset.stamp;
  const open = [...document.querySelectorAll("main details")].map((one) => one.open);
  const main = fresh.querySelector("main");
  [...main.querySelectorAll("details")].forEach((one, n) => { if (n in open) one.open = open[n]; });
  document.querySelector("main").replaceWith(document.adoptNode(main));
  document.querySelector("header").replaceWith(document.adoptNode(fresh.querySelector("header")));
}

async function again() {
  try {
    if (!document.hidden) await look();
  } catch {
    lost.hidden = false;
  }
  setTimeout(again, PAUSE);
}

if (news) news.querySelector("button").addEventListener("click", () => location.reload());
if (page.dataset.stamp) setTimeout(again, PAUSE);
