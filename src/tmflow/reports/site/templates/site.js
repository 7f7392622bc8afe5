// Behaviour of the pages of a published site: filters kept in the address, charts, and the list of runs.
"use strict";
(() => {
  const PAGE = 50; // runs per page
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const one = (what) => document.querySelector(what);

  // --- The address: the choices as #key=value&key=value; #word without "=" is an anchor on the page.

  const chosen = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

  function choose(changes, { replace = false } = {}) {
    const now = chosen();
    for (const [key, value] of Object.entries(changes)) {
      if (value) now.set(key, value);
      else now.delete(key);
    }
    const to = location.href.split("#")[0] + (now.size ? `#${now}` : "");
    if (to !== location.href) history[replace ? "replaceState" : "pushState"](null, "", to);
    show();
  }

  // --- Filters: the form follows the address; an impossible choice in the address is reported.

  const form = one("form.filters");
  const said = one(".said");
  const selects = form ? all("select", form) : [];
  const search = form && form.querySelector("input[type=search]");

  function setForm() {
    const now = chosen();
    const problems = [];
    for (const select of selects) {
      const wish = now.get(select.name) || "";
      const offered = [...select.options].some((option) => option.value === wish);
      if (!offered) problems.push(`The link asks for ${select.name} '${wish.slice(0, 60)}', which is not here: showing all.`);
      select.value = offered ? wish : "";
    }
    if (search && document.activeElement !== search) search.value = now.get("q") || "";
    return problems;
  }

  const wishes = () => selects.filter((select) => select.value).map((select) => [select.name, select.value]);
  const words = () => (search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : []);

  function say(text, problems) {
    said.textContent = [...problems, text].join(" ");
    said.classList.toggle("problem", problems.length > 0);
  }

  function listen() {
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", (event) => {
      if (event.target.matches("select")) choose({ [event.target.name]: event.target.value, page: "" });
    });
    if (search) search.addEventListener("input", () => choose({ q: search.value.trim(), page: "" }, { replace: true }));
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      if (search) search.value = "";
      choose(Object.fromEntries([...chosen().keys()].map((key) => [key, ""])));
    });
  }

  // --- Items that the form shows and hides: figures, verdicts, headings, terms.

  const admits = (item, wanted, sought) =>
    wanted.every(([key, value]) => item.dataset[key] === value) &&
    sought.every((word) => (item.dataset.text || item.textContent).toLowerCase().includes(word));

  function filterItems(items) {
    const problems = setForm();
    const [wanted, sought] = [wishes(), words()];
    let shown = 0;
    for (const item of items) {
      item.hidden = !admits(item, wanted, sought);
      shown += !item.hidden;
    }
    for (const select of selects) {
      // Options that would leave nothing are hidden.
      const others = wanted.filter(([key]) => key !== select.name);
      const left = new Set(items.filter((item) => admits(item, others, sought)).map((item) => item.dataset[select.name]));
      for (const option of select.options) option.hidden = option.value !== "" && !left.has(option.value);
    }
    for (const claim of all("section.claim")) claim.hidden = !all("article", claim).some((verdict) => !verdict.hidden);
    const none = shown ? "" : " “Show all” resets every choice.";
    say(shown === items.length ? "" : `${shown} of ${items.length} shown.${none}`, problems);
  }

  // --- Charts: drawn when they come into view, in the colours of the page; a picture replaces a chart that fails.

  const dark = matchMedia("(prefers-color-scheme: dark)");

  function themed(spec) {
    const [ink, line] = dark.matches ? ["#e0e0e0", "#444"] : ["#333", "#ddd"];
    const of = { labelColor: ink, titleColor: ink };
    const config = spec.config || {};
    delete spec.title; // the page shows it as text above the chart
    spec.background = "transparent";
    spec.config = {
      ...config,
      axis: { ...config.axis, ...of, gridColor: line, domainColor: line, tickColor: line },
      legend: { ...config.legend, ...of },
      header: { ...config.header, ...of },
      title: { ...config.title, color: ink },
      view: { ...config.view, stroke: line },
    };
    if (spec.layer) {
      spec.width = "container";
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    return spec;
  }

  async function draw(place) {
    try {
      const answer = await fetch(`${place.dataset.chart}.vl.json`);
      if (!answer.ok) throw new Error(answer.statusText);
      const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
      await vegaEmbed(place, themed(await answer.json()), options);
    } catch {
      // For example when pages are opened from disk: browsers then refuse every fetch.
      const picture = new Image();
      picture.src = `${place.dataset.chart}.svg`;
      picture.alt = place.getAttribute("aria-label");
      picture.className = "picture";
      place.replaceChildren(picture);
    }
  }

  function drawInView(places) {
    const drawn = new Set();
    const seen = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) {
          if (!isIntersecting || drawn.has(target)) continue;
          drawn.add(target);
          draw(target);
        }
      },
      { rootMargin: "600px" },
    );
    for (const place of places) seen.observe(place);
    dark.addEventListener("change", () => drawn.forEach(draw));
    addEventListener("beforeprint", () => places.forEach((place) => drawn.has(place) || (drawn.add(place), draw(place))));
  }

  // --- Runs: loaded in chunks; searched, sorted and paged in the browser.

  const element = (name, text, className = "") => Object.assign(document.createElement(name), { textContent: text, className });
  const shownAs = (value) => (value === null ? "–" : typeof value === "number" && !Number.isInteger(value) ? String(+value.toPrecision(5)) : String(value));

  async function runs(table) {
    const json = async (name) => {
      const answer = await fetch(table.dataset.files + name);
      if (!answer.ok) throw new Error(answer.statusText);
      return answer.json();
    };
    let index, rows;
    try {
      index = await json("index.json");
      rows = (await Promise.all(index.files.map(json))).flat();
    } catch {
      say("The runs could not be loaded: open this page through a server, such as `python -m http.server`.", []);
      return () => {};
    }
    const at = Object.fromEntries(index.columns.map((name, i) => [name, i]));
    const texts = rows.map((row) => row.filter((value) => value !== null).join(" ").toLowerCase());
    const pager = one(".pager");
    const [before, after] = all("button", pager);
    before.addEventListener("click", () => choose({ page: String(page() - 1) }));
    after.addEventListener("click", () => choose({ page: String(page() + 1) }));
    const page = () => Math.max(1, Number.parseInt(chosen().get("page"), 10) || 1);

    table.tHead.append(document.createElement("tr"));
    for (const name of index.shown) {
      const head = element("th", "");
      const button = element("button", name);
      button.type = "button";
      button.addEventListener("click", () => choose({ sort: chosen().get("sort") === name ? `-${name}` : name, page: "" }));
      head.append(button);
      head.dataset.column = name;
      table.tHead.rows[0].append(head);
    }

    function line(row) {
      const cells = document.createElement("tr");
      index.shown.forEach((name, i) => {
        const cell = element("td", i ? shownAs(row[at[name]]) : "", typeof row[at[name]] === "number" ? "number" : "");
        if (!i) {
          const link = element("a", shownAs(row[at[name]]));
          const now = chosen();
          now.set("run", row[at.uid]);
          link.href = `#${now}`;
          cell.append(link);
        }
        cells.append(cell);
      });
      return cells;
    }

    function detail(uid) {
      const place = one("#run");
      const row = uid && rows.find((candidate) => candidate[at.uid] === uid);
      place.hidden = !row;
      if (!row) return uid ? [`The link asks for run '${uid.slice(0, 60)}', which is not listed here.`] : [];
      const facts = document.createElement("table");
      for (const name of index.columns) {
        if (name === "command" || row[at[name]] === null) continue;
        const fact = document.createElement("tr");
        fact.append(element("th", name), element("td", shownAs(row[at[name]])));
        facts.append(fact);
      }
      const wide = element("div", "", "wide");
      wide.append(facts);
      const close = element("button", "Close");
      close.addEventListener("click", () => choose({ run: "" }));
      const command = document.createElement("pre");
      command.append(element("code", row[at.command]));
      place.replaceChildren(element("h2", `Run ${uid}`), element("p", "Repeat it:"), command, wide, close);
      return [];
    }

    return () => {
      const problems = setForm();
      const [wanted, sought] = [wishes(), words()];
      const matching = rows.filter(
        (row, i) => wanted.every(([key, value]) => String(row[at[key]]) === value) && sought.every((word) => texts[i].includes(word)),
      );
      const wish = chosen().get("sort") || "";
      const [key, down] = wish.startsWith("-") ? [wish.slice(1), -1] : [wish, 1];
      if (wish && !(key in at)) problems.push(`The link asks for an order by '${key.slice(0, 60)}', which is no column.`);
      else if (wish) matching.sort((a, b) => down * compare(a[at[key]], b[at[key]]));
      for (const head of table.tHead.rows[0].cells) {
        if (head.dataset.column === key) head.ariaSort = down > 0 ? "ascending" : "descending";
        else head.removeAttribute("aria-sort");
      }
      const pages = Math.max(1, Math.ceil(matching.length / PAGE));
      const now = Math.min(page(), pages);
      problems.push(...detail(chosen().get("run")));
      table.tBodies[0].replaceChildren(...matching.slice((now - 1) * PAGE, now * PAGE).map(line));
      pager.hidden = pages === 1;
      [before.disabled, after.disabled] = [now === 1, now === pages];
      all("span", pager)[0].textContent = `page ${now} of ${pages}`;
      say(`${matching.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} runs.`, problems);
    };
  }

  // Missing values come last; numbers are compared by value.
  const compare = (a, b) => (a === null) - (b === null) || (a < b ? -1 : a > b ? 1 : 0);

  // --- Snippets that embed a chart in another site: with the address that this site has now.

  function completeSnippets() {
    for (const code of all("code.embed")) {
      const address = new URL(code.dataset.page, location.href).href;
      code.textContent = code.textContent.replace(/src="[^"]*"/, () => `src="${address}"`);
    }
  }

  // --- Start: each page sets up the parts that it contains.

  let show = () => {};
  async function begin() {
    if (form) {
      const table = one("#runs");
      listen();
      if (table) show = await runs(table);
      else show = () => filterItems(items);
      const items = table ? [] : all(form.dataset.of);
      show();
      addEventListener("hashchange", () => show());
      addEventListener("popstate", () => show());
    }
    completeSnippets();
    drawInView(all("[data-chart]"));
  }
  begin();
})();
