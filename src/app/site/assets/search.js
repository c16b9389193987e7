// The search field of the site. The index and the ranking are separate scripts, which are loaded when the field is
// first used. This works even if the pages are local files.
(() => {
  const root = document.currentScript.dataset.root;
  const field = document.getElementById("search");
  const list = document.getElementById("found");
  let loading = null;
  let chosen = -1;

  const script = (name) => new Promise((done, failed) => {
    const element = document.createElement("script");
    element.src = root + name;
    element.onload = done;
    element.onerror = failed;
    document.head.append(element);
  });
  const load = () => loading ??= Promise.all([script("rank.js"), script("search-index.js")]);

  const show = async () => {
    await load();
    // Read after loading, because the user may have typed more meanwhile.
    const typed = field.value;
    const found = window.CLK_FIND(window.CLK_INDEX, typed);
    list.replaceChildren();
    chosen = -1;
    list.hidden = typed.trim() === "";
    if (list.hidden) return;
    for (const { title, place, address } of found) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = root + address;
      link.textContent = title;
      const where = document.createElement("small");
      where.textContent = place;
      link.append(where);
      item.append(link);
      list.append(item);
    }
    if (found.length === 0) {
      const item = document.createElement("li");
      item.textContent = "No page has all of these words.";
      list.append(item);
    }
  };

  const choose = (step) => {
    const links = [...list.querySelectorAll("a")];
    if (links.length === 0) return;
    links[chosen]?.removeAttribute("aria-selected");
    chosen = (chosen + step + links.length) % links.length;
    links[chosen].setAttribute("aria-selected", "true");
    links[chosen].scrollIntoView({ block: "nearest" });
  };

  field.addEventListener("focus", load);
  field.addEventListener("input", show);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { choose(1); event.preventDefault(); }
    if (event.key === "ArrowUp") { choose(chosen < 0 ? 0 : -1); event.preventDefault(); }
    if (event.key === "Enter") (list.querySelectorAll("a")[Math.max(chosen, 0)])?.click();
    if (event.key === "Escape") { field.value = ""; list.hidden = true; field.blur(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement === document.body) { field.focus(); event.preventDefault(); }
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.hidden = true; });
})();
