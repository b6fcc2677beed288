// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Loads the page again when the host has changed, and replaces the parts of it that differ: what
// has an ID. A form has none, as a person may be typing into it.
"use strict";

const body = document.body;
const state = document.getElementById("state");
let shown = body.dataset.version;
let stream = null;
let loading = false;
let newest = shown;

function say(text) {
  if (state.textContent !== text) {
    state.textContent = text;
  }
}

// replace puts the regions of another version of the page in place of these.
function replace(next) {
  const regions = [...document.querySelectorAll("main > [id]:not(h1), #asof")];
  for (const region of regions) {
    const other = next.getElementById(region.id);
    if (!other || !region.isConnected || region.outerHTML === other.outerHTML) {
      continue;
    }
    const open = new Map([...region.querySelectorAll("details")].map((d, i) => [keyOf(d, i), d.open]));
    const focused = region.contains(document.activeElement) ? pathOf(document.activeElement, region) : null;
    region.replaceChildren(...document.adoptNode(other).childNodes);
    region.className = other.className;
    [...region.querySelectorAll("details")].forEach((d, i) => { d.open = open.get(keyOf(d, i)) ?? d.open; });
    focused?.(region)?.focus({ preventScroll: true });
  }
}

// keyOf is what one that opens is known again by: a key, as others may come before it, or else its place.
function keyOf(details, place) {
  return details.dataset.key ?? place;
}

// pathOf returns a function that finds what an element was in the new region: the same link, or
// what is at its place.
function pathOf(element, region) {
  const selector = element.tagName.toLowerCase();
  const same = [...region.querySelectorAll(selector)].filter((e) => e.href === element.href);
  const at = same.indexOf(element);
  return (next) => [...next.querySelectorAll(selector)].filter((e) => e.href === element.href)[at];
}

async function load() {
  if (loading) {
    return;
  }
  loading = true;
  try {
    do {
      const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!next.body.dataset.version || structureOf(next) !== structureOf(document)) {
        location.reload();
        return;
      }
      replace(next);
      shown = next.body.dataset.version;
      if (Number(newest) < Number(shown)) {
        newest = shown;
      }
    } while (newest !== shown);
  } catch {
    say("Not connected: retrying");
  } finally {
    loading = false;
  }
}

// structureOf tells apart pages of different kinds, such as that of an allocation that is gone.
function structureOf(page) {
  return [...page.querySelectorAll("main > *")].map((e) => e.tagName + e.id).join(" ");
}

function follow() {
  stream = new EventSource(body.dataset.live);
  stream.onopen = () => say("Live");
  stream.onmessage = (message) => {
    newest = message.data;
    if (newest !== shown) {
      load();
    }
  };
  stream.onerror = () => say(stream.readyState === EventSource.CLOSED ? "Ended: reload the page" : "Not connected: retrying");
}

// A page that is not seen needs no connection: a browser has only a few to one server.
document.addEventListener("visibilitychange", () => {
  stream?.close();
  stream = null;
  if (!document.hidden) {
    follow();
  }
});
addEventListener("pagehide", () => stream?.close());
if (!document.hidden) {
  follow();
}

// What is no event, as traffic is, is asked for while the page is seen.
if (body.dataset.every) {
  setInterval(() => {
    if (stream?.readyState === EventSource.OPEN) {
      load();
    }
  }, Number(body.dataset.every) * 1000);
}
