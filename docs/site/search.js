// What search finds, best first: names that are what was asked, names that begin so, titles,
// and then texts that have all words. Used by the page and by the tests.
"use strict";

function setpointSearch(index, question, most) {
  const asked = question.trim().toLowerCase();
  if (asked === "") return [];
  // Dashes before a flag, quotes and a value behind it do not matter.
  const bare = (text) => text.toLowerCase().replace(/^[-`"']+|[`"']+$/g, "");
  const name = bare(asked.replace(/[= ].*$/, ""));
  const words = asked.split(/\s+/).map(bare).filter((word) => word !== "");
  const found = [];
  index.forEach((entry, place) => {
    const title = bare(entry.t);
    const all = words.every((word) => title.includes(word));
    let rank;
    if (entry.t.toLowerCase() === asked) rank = entry.n ? -2 : -1;
    else if (title === asked || title === bare(asked) || (entry.n && title === name)) rank = 0;
    else if (name.length > 1 && title.startsWith(bare(asked))) rank = entry.n ? 10 : 12;
    else if (all && words.length > 0) rank = entry.n ? 20 : 18;
    else {
      const text = (entry.p + " " + entry.t + " " + entry.x).toLowerCase();
      if (words.length === 0 || !words.every((word) => text.includes(word))) return;
      rank = 40 + (entry.n ? 5 : 0);
    }
    // A page that is looked up in comes before one that tells of the time of a decision.
    if (entry.u.startsWith("docs/decisions/") || entry.u.startsWith("CHANGELOG")) rank += 30;
    if (entry.u.startsWith("docs/reference/") || entry.u.startsWith("docs/troubleshoot")) rank -= 0.5;
    found.push({ entry, rank: rank + Math.min(title.length, 80) / 1000, place });
  });
  found.sort((a, b) => a.rank - b.rank || a.place - b.place);
  return found.slice(0, most).map((one) => one.entry);
}

if (typeof module !== "undefined") module.exports = { setpointSearch };
