"use strict";
(() => {
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const original = rows.slice();
  const search = document.getElementById("search");
  const selects = Array.from(document.querySelectorAll("select[data-filter]"));
  const shown = document.getElementById("shown");
  const counts = Array.from(document.querySelectorAll(".count"));
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const controls = document.querySelector(".controls");
  const noun = controls.dataset.noun;
  let state = "";

  const key = (row, index, numeric) => {
    const value = row.cells[index].dataset.key;
    if (value === undefined || value === "") return null;
    return numeric ? Number(value) : value;
  };

  const sortBy = (header, index, numeric) => {
    const was = header.getAttribute("aria-sort");
    const next = was === "ascending" ? "descending" : was === "descending" ? "none" : "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", next);
    const order = original.slice();
    if (next !== "none") {
      const sign = next === "ascending" ? 1 : -1;
      order.sort((a, b) => {
        const x = key(a, index, numeric);
        const y = key(b, index, numeric);
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (numeric ? x - y : x < y ? -1 : x > y ? 1 : 0);
      });
    }
    body.append(...order);
  };

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let visible = 0;
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).includes(word))
        && selects.every((select) => !select.value || row.dataset[select.dataset.filter] === select.value)
        && (!state || row.dataset.state === state);
      row.hidden = !fits;
      visible += fits ? 1 : 0;
    }
    shown.textContent = visible === rows.length
      ? `All ${rows.length} ${noun}`
      : `${visible} of ${rows.length} ${noun}`;
    for (const count of counts) count.setAttribute("aria-pressed", String(count.dataset.state === state));
  };

  Array.from(table.tHead.rows[0].cells).forEach((header, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    // Browsers print no button in the header that they repeat on each page.
    const printed = document.createElement("span");
    printed.className = "printed";
    printed.textContent = header.textContent;
    header.replaceChildren(button, printed);
    header.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sortBy(header, index, header.classList.contains("num")));
  });
  search.addEventListener("input", filter);
  for (const select of selects) {
    select.addEventListener("change", () => {
      if (select.dataset.filter === "state") state = "";
      filter();
    });
  }
  for (const count of counts) {
    count.addEventListener("click", () => {
      state = state === count.dataset.state ? "" : count.dataset.state;
      for (const select of selects) if (select.dataset.filter === "state") select.value = "";
      filter();
      table.closest("section").scrollIntoView();
    });
  }
  document.getElementById("reset").addEventListener("click", () => {
    search.value = "";
    for (const select of selects) select.value = "";
    state = "";
    filter();
    search.focus();
  });

  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  label();

  addEventListener("beforeprint", () => {
    for (const detail of document.querySelectorAll("details:not([open])")) {
      detail.open = true;
      detail.dataset.printed = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const detail of document.querySelectorAll("details[data-printed]")) {
      detail.open = false;
      delete detail.dataset.printed;
    }
  });

  controls.hidden = false;
  theme.hidden = false;
  filter();
})();
