"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const page = document.documentElement;
  try {
    const light = localStorage.getItem("setpoint-light");
    if (light) page.dataset.light = light;
  } catch { /* without storage: as the system has it */ }
  document.getElementById("_light").onclick = () => {
    const dark = page.dataset.light ? page.dataset.light === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    page.dataset.light = dark ? "light" : "dark";
    try { localStorage.setItem("setpoint-light", page.dataset.light); } catch { /* for this page only */ }
  };

  const menu = document.getElementById("_menu");
  menu.onclick = () => menu.setAttribute("aria-expanded", String(document.getElementById("_groups").classList.toggle("open")));
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest" });

  for (const block of document.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.textContent = "Copy";
    button.onclick = async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    };
    if (navigator.clipboard) block.append(button);
  }

  const input = document.getElementById("_question"), list = document.getElementById("_results");
  let loading, chosen = -1;
  const load = (name) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = root + name;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  const ready = () => (loading ??= Promise.all([load("search.js"), load("search-index.js")]));
  const choose = (to) => {
    const all = list.querySelectorAll("[role=option]");
    all[chosen]?.setAttribute("aria-selected", "false");
    chosen = all.length ? (to + all.length) % all.length : -1;
    all[chosen]?.setAttribute("aria-selected", "true");
    all[chosen]?.scrollIntoView({ block: "nearest" });
    if (all[chosen]) input.setAttribute("aria-activedescendant", all[chosen].id);
  };
  const show = async () => {
    await ready();
    const found = setpointSearch(window.setpointIndex, input.value, 30);
    list.replaceChildren(...found.map((entry, i) => {
      const item = document.createElement("li"), link = document.createElement("a"), title = document.createElement("b");
      const from = document.createElement("span"), text = document.createElement("small");
      item.setAttribute("role", "none");
      link.id = "result-" + i;
      link.setAttribute("role", "option");
      link.href = root + entry.u;
      link.tabIndex = -1;
      title.textContent = entry.t;
      from.className = "from";
      from.textContent = entry.p === entry.t ? "" : entry.p;
      text.textContent = entry.x.length > 160 ? entry.x.slice(0, 160) + " …" : entry.x;
      link.append(from, title, text);
      item.append(link);
      return item;
    }));
    if (!found.length && input.value.trim()) {
      const none = document.createElement("li");
      none.className = "none";
      none.textContent = "Nothing has all of these words.";
      list.append(none);
    }
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    chosen = -1;
    if (found.length) choose(0);
  };
  input.addEventListener("focus", ready);
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Escape") {
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
    }
  });
  document.getElementById("_search").onsubmit = (event) => {
    event.preventDefault();
    list.querySelector("[aria-selected=true]")?.click();
  };
  document.addEventListener("click", (event) => { if (!event.target.closest("#_search")) list.hidden = true; });
  list.addEventListener("click", () => { list.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });
})();
