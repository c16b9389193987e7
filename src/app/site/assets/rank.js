// Finds and ranks search results. The result depends only on the index (search-index.js) and the typed text. Tests run
// this file unchanged.
window.CLK_FIND = (() => {
  // The same stop words and rules as in the Rust code that creates the index. Words that are not indexed must not be
  // searched.
  const STOP = new Set(("a an and are as at be been but by can do does for from has have here how if in into is it its may more must no not " +
    "of on one only or other own same so some such than that the their them then there these they this those to too two up was what when " +
    "where which while who why will with would you your").split(" "));
  const IRREGULAR = { matrices: "matrix", indices: "index", axes: "axis" };
  // Synonyms: words that users type, and the terms that Clk's documentation uses instead.
  const ALSO = new Map(Object.entries({
    multiplication: ["product"], multiply: ["product"], infinite: ["endless"], convert: ["conversion"], cast: ["conversion"], int: ["integer"],
    division: ["divided"], debugger: ["debugging"], constant: ["const"],
  }));
  // Prefixes of modules. They are ignored if the query has other words.
  const MODULES = new Set(["np", "numpy", "cp", "cupy", "jnp", "torch", "std"]);

  const stem = (word) => {
    if (Object.hasOwn(IRREGULAR, word)) return IRREGULAR[word];
    if (word.length > 4 && /(ch|sh|ss|x)es$/.test(word)) return word.slice(0, -2);
    return word.length > 3 && /s$/.test(word) && !/(ss|us|is)$/.test(word) ? word.slice(0, -1) : word;
  };
  const split = (text) => (text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []).map((word) => word.replace(/^_+|_+$/g, "")).filter(Boolean);
  // Returns the words of a text without stop words. If all are stop words, returns all of them, because some are
  // keywords, such as `for`.
  const words = (text) => {
    const all = split(text);
    const kept = all.filter((word) => !STOP.has(word));
    return (kept.length ? kept : all).map(stem);
  };
  const asked = (text) => {
    const all = words(text);
    const names = all.filter((word) => !MODULES.has(word));
    return names.length ? names : all;
  };
  const signs = (text) => text.split(/[\s\p{L}\p{N}_(),[\]{}"'`]+/u).filter(Boolean);

  // Returns how well a typed word matches a word of the text: 2 if they are equal, 1 if it is a prefix, 0 otherwise.
  const fits = (word, there) => (word === there ? 2 : there.startsWith(word) ? 1 : 0);
  const best = (word, all) =>
    Math.max(0, ...all.map((there) => fits(word, there)), (ALSO.get(word) ?? []).some((other) => all.includes(other)) ? 1 : 0);

  // Order of pages in the results, by their paths: tutorials before lists, and lists before messages.
  const ORDER = [[/^errors\//, 8], [/^examples\//, 6], [/^(contributing|design|releasing|benchmarks|site|security|grammar)/, 7], [/^std\//, 4],
    [/^numpy-functions/, 5], [/^(book|howto)\//, 0], [/^(reference|builtins|commands)\.html/, 1]];
  const order = (address) => (ORDER.find(([form]) => form.test(address)) ?? [0, 3])[1];

  // Converts an index to a form that is fast to search, when it is first used.
  const prepared = (index) => index.prepared ??= {
    entries: index.entries.map(([title, place, address]) => ({
      title, place, address, order: order(address), isError: address.startsWith("errors/"), isPage: !address.includes("#"),
      isList: address.startsWith("numpy-functions"),
      page: address.split("#")[0],
      // Removes the numbers of chapters and the prefix of library modules, which users do not type.
      words: words(title.replace(/^\d+\. /, "").replace(/^std\./, "")),
      around: words(place),
    })),
    rows: index.rows.map(([left, right, place, address, kind]) => ({
      title: `${kind ? left.replaceAll(" ", ", ") : left} → ${right}`, place, address, left, kind,
      names: kind === 1 ? left.toLowerCase().split(" ") : [], words: words(left), right: kind ? [] : words(right),
    })),
    words: index.words.split("\n").filter(Boolean).map((line) => line.split(" ")),
  };

  // Returns the entries whose text contains a word, each with a weight. Equal words weigh more than prefixes.
  const occurrences = (known, word) => {
    const found = new Map();
    for (const [there, ...numbers] of known.words) {
      const fit = fits(word, there);
      if (!fit) continue;
      let entry = 0;
      for (const number of numbers) {
        const value = parseInt(number, 36);
        entry += Math.floor(value / 4);
        const weight = (value % 4) + 1 - (fit === 2 ? 0 : 0.5);
        if (weight > (found.get(entry) ?? 0)) found.set(entry, weight);
      }
    }
    return found;
  };

  // Scores an entry by its title only. Lower is better; null means no match.
  const ofTitle = (entry, query) => {
    const penalty = entry.isError && !/^[ew]\d/.test(query[0]) ? 4 : entry.isList ? 2.5 : 0;
    const fit = query.map((word) => best(word, entry.words));
    if (!fit.every(Boolean)) return null;
    const rest = entry.order / 20 + (entry.isPage ? 0 : 0.15) + entry.words.length / 200;
    const exact = fit.every((f) => f === 2);
    if (exact && entry.words.length === query.length) return penalty + rest;
    const begins = query.every((word, k) => fits(word, entry.words[k] ?? ""));
    return penalty + rest + (begins ? 1 : 2) + (exact ? 0 : 0.4);
  };

  const ofRow = (row, query, typed) => {
    const name = typed.replace(/\(.*$/, "").trim();
    if (row.names.includes(name)) return 0.5;
    if (name.length > 3 && row.names.some((known) => known.startsWith(name))) return 1.5;
    const left = query.map((word) => best(word, row.words));
    const all = query.map((word, k) => Math.max(left[k], best(word, row.right)));
    if (!all.every(Boolean)) return null;
    return 3 + (left.every((f) => f === 2) ? 0 : left.every(Boolean) ? 0.4 : 2) + row.words.length / 200;
  };

  // Scores an entry by the text below its title, together with its title and that of the page.
  const ofText = (entry, number, query, found) => {
    let sum = 0;
    let inText = 0;
    let bold = 0;
    for (const [k, word] of query.entries()) {
      const text = found[k].get(number) ?? 0;
      if (text) inText += 1;
      if (text === 4) bold += 1;
      const title = best(word, entry.words) * 2;
      const weight = Math.max(text, title, entry.isPage ? 0 : best(word, entry.around) * 0.75);
      if (!weight) return null;
      sum += weight;
    }
    if (!inText) return null;
    if (bold === query.length) return 1.3 + (entry.isError ? 4 : 0) + entry.order / 20;
    return 5 + (entry.isError ? 1 : 0) + entry.order / 8 - Math.min(sum / query.length, 4) / 2;
  };

  // Returns pages that contain all words of the query, but in different sections.
  const ofPages = (known, query, found) => {
    const pages = query.map((word, k) => {
      const here = new Set([...found[k].keys()].map((number) => known.entries[number].page));
      for (const entry of known.entries) if (best(word, entry.words)) here.add(entry.page);
      return here;
    });
    return known.entries.filter((entry) => entry.isPage && pages.every((here) => here.has(entry.page)));
  };

  // Finds operators, which occur only in table rows.
  const bySigns = (known, typed) => {
    const wanted = signs(typed);
    if (wanted.length === 0) return [];
    const has = (text) => wanted.every((sign) => signs(text).includes(sign));
    return known.rows.map((row) => [has(row.left) ? 1 : has(row.title) ? 2 : null, row]);
  };

  const byWords = (known, query, typed) => {
    const found = query.map((word) => {
      const all = occurrences(known, word);
      for (const other of ALSO.get(word) ?? []) {
        for (const [entry, weight] of occurrences(known, other)) all.set(entry, Math.max(all.get(entry) ?? 0, weight - 0.25));
      }
      return all;
    });
    const scored = known.entries.map((entry, number) => {
      const scores = [ofTitle(entry, query), ofText(entry, number, query, found)].filter((score) => score !== null);
      return [scores.length ? Math.min(...scores) : null, entry];
    });
    scored.push(...known.rows.map((row) => [ofRow(row, query, typed), row]));
    if (query.length > 1) scored.push(...ofPages(known, query, found).map((entry) => [8 + entry.order / 8, entry]));
    return scored;
  };

  return (index, text) => {
    const known = prepared(index);
    const typed = text.trim().toLowerCase();
    const query = asked(typed);
    const scored = query.length ? byWords(known, query, typed) : bySigns(known, typed);
    const seen = new Set();
    return scored
      .filter(([score]) => score !== null)
      .sort((a, b) => a[0] - b[0])
      .map(([, { title, place, address }]) => ({ title, place, address }))
      .filter(({ title, address }) => !seen.has(title + address) && seen.add(title + address))
      .slice(0, 24);
  };
})();
