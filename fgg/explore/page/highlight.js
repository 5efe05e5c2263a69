"use strict";
// Colouring texts: grammars by the rules of the engine's own lexer, programs by a few words.

/** A function from a text to its tokens `[start, end, class]`, by the rules that the server sends. */
function lexerOf(rules) {
  const tries = rules.map(([pattern, kind]) => [new RegExp(pattern, "duy"), kind]);
  return (text) => {
    const tokens = [];
    let place = 0;
    while (place < text.length) {
      place = token(text, place, tries, tokens);
    }
    return tokens;
  };
}

function token(text, place, tries, tokens) {
  for (const [pattern, kind] of tries) {
    pattern.lastIndex = place;
    const match = pattern.exec(text);
    if (!match || !match[0]) continue;
    if (Array.isArray(kind)) {
      kind.forEach((name, group) => name && tokens.push([...match.indices[group + 1], name]));
    } else if (kind) {
      tokens.push([place, pattern.lastIndex, kind]);
    }
    return pattern.lastIndex;
  }
  return place + 1;
}

/**
 * A text as nodes: spans for its tokens, and around parts of them for `marks`,
 * `[start, end, class]`, which may overlap.
 */
function coloured(text, tokens, marks = []) {
  const edges = new Set([0, text.length]);
  for (const [start, end] of [...tokens, ...marks]) edges.add(start).add(end);
  const places = [...edges].filter((place) => place <= text.length).sort((a, b) => a - b);
  const nodes = [];
  let next = 0;
  for (let i = 0; i + 1 < places.length; i++) {
    const [start, end] = [places[i], places[i + 1]];
    while (next < tokens.length && tokens[next][1] <= start) next++;
    const classes = marks.filter(([from, to]) => from <= start && end <= to).map((mark) => mark[2]);
    if (next < tokens.length && tokens[next][0] <= start) classes.unshift(tokens[next][2]);
    const piece = text.slice(start, end);
    nodes.push(classes.length ? el("span", { class: classes.join(" ") }, piece) : piece);
  }
  return nodes;
}

const PROGRAM_WORDS = {
  python: /(#[^\n]*)|("""[^]*?"""|"[^"\n]*"|'[^'\n]*')|\b(and|as|class|def|else|elif|for|from|if|import|in|is|lambda|not|or|range|return|with|None|True|False)\b|(\b\d[\d.e]*\b)|(\b\w+(?=\())/g,
  cpp: /(\/\/[^\n]*)|("[^"\n]*")|\b(auto|bool|class|const|constexpr|continue|double|else|float|for|if|inline|int|override|return|static|struct|template|typename|using|void|while)\b|(\b\d[\d.e]*\b)|(\b\w+(?=[({]))/g,
};
const PROGRAM_CLASSES = ["comment", "string", "keyword", "number", "function"];

/** The tokens of a program. */
function programTokens(text, language) {
  const found = [];
  for (const match of text.matchAll(PROGRAM_WORDS[language])) {
    const kind = PROGRAM_CLASSES[match.slice(1).findIndex((group) => group !== undefined)];
    found.push([match.index, match.index + match[0].length, kind]);
  }
  return found;
}
