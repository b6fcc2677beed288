// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

"use strict";

// Sections that have all words of the query, best first: words in a title count more, and so does the whole query as it is.
const most = 30;
const query = new URLSearchParams(location.search).get("q") || "";
const words = query.toLowerCase().split(/[^\p{L}\p{N}._@/-]+/u).filter((word) => word.length > 0);

function score(section) {
  const title = section.title.toLowerCase();
  const all = (section.page + " " + section.title + " " + section.text).toLowerCase();
  if (words.length === 0 || !words.every((word) => all.includes(word))) return 0;
  let points = 1;
  for (const word of words) {
    if (title.includes(word)) points += 5;
    if (section.page.toLowerCase().includes(word)) points += 2;
    points += Math.min(all.split(word).length - 1, 5) / 5;
  }
  const whole = query.trim().toLowerCase();
  if (all.includes(whole)) points += 3;
  if (title.includes(whole)) points += 5;
  return points;
}

// What is around the first word.
function excerpt(text) {
  const at = Math.max(0, ...words.slice(0, 1).map((word) => text.toLowerCase().indexOf(word)));
  const from = Math.max(0, at - 80);
  return (from > 0 ? "… " : "") + text.slice(from, from + 220) + (text.length > from + 220 ? " …" : "");
}

function show(section) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = section.address;
  link.textContent = section.title === section.page ? section.page : section.page + ": " + section.title;
  const text = document.createElement("p");
  text.textContent = excerpt(section.text);
  item.append(link, text);
  return item;
}

const found = sections
  .map((section) => ({ section, points: score(section) }))
  .filter((one) => one.points > 0)
  .sort((a, b) => b.points - a.points);
document.getElementById("q").value = query;
document.getElementById("count").textContent = query.trim() === "" ? "Type words, or a message."
  : found.length === 0 ? "Nothing has all of these words."
  : found.length + (found.length === 1 ? " section" : " sections") + (found.length > most ? ", of which these are the first " + most : "");
document.getElementById("found").append(...found.slice(0, most).map((one) => show(one.section)));
