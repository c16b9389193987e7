// The search of the site. The index is a script beside this one, loaded when the field is first used; it works from local files, too.
(() => {
  const root = document.currentScript.dataset.root;
  const field = document.getElementById("search");
  const list = document.getElementById("found");
  let loading = null;
  let chosen = -1;

  const load = () => loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });

  // Lower is better; null is no match. All words have to occur in the title or the place; titles that begin with them come first.
  const rank = ([title, place], words) => {
    const name = title.toLowerCase();
    const all = name + " " + place.toLowerCase();
    if (!words.every((word) => all.includes(word))) return null;
    const first = words.join(" ");
    if (name === first) return 0;
    if (name.startsWith(first)) return 1 + name.length / 100;
    if (words.every((word) => name.includes(word))) return 3 + name.length / 100;
    return 6 + all.length / 100;
  };

  const show = async () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    await load();
    list.replaceChildren();
    chosen = -1;
    list.hidden = words.length === 0;
    if (words.length === 0) return;
    const found = window.CLK_INDEX
      .map((entry) => [rank(entry, words), entry])
      .filter(([score]) => score !== null)
      .sort((a, b) => a[0] - b[0])
      .slice(0, 24);
    for (const [, [title, place, address]] of found) {
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
      item.textContent = "Nothing has all of these words in its title.";
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
