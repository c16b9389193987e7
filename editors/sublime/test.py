"""Highlights a sample with bat and compares the colours of its words, each by the class that the theme gives it."""

import re
import subprocess
import sys

SAMPLE = '''\
/// doc
const WIDTH: i32 = 4
kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = if i < 3 { sqrt(x[i]) } else { 2.5f64 }
    for k in 0..10 step 2 { barrier() }
}
/* a /* b */ inner */
on sim { batch { work() } }
print("text {value:.3} {{n}} // more")
let time = grid + true
'''

# Words that have to look alike, and unlike the words of the other lines.
CLASSES = {
    "comment": ["doc", "inner"],
    "keyword": ["if", "else", "for", "in", "step", "on", "batch"],
    "storage": ["const", "out"],
    "string": ["text", "// more"],
    "number": ["4", "2.5f64", "10"],
    "function": ["sqrt", "barrier"],
    "plain": ["time", "grid"],
}


def coloured(bat):
    """Pairs of a text and its colour, without the theme's names."""
    command = [bat, "--color=always", "--style=plain", "--theme=Monokai Extended", "--language=Clk", "-"]
    out = subprocess.run(command, input=SAMPLE, capture_output=True, text=True, check=True).stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", out).strip() == SAMPLE.strip(), "bat changed the text"
    parts, colour = [], ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", out):
        if piece.startswith("\x1b"):
            colour = "" if piece in ("\x1b[0m", "\x1b[m") else piece
        elif piece:
            parts.append((piece, colour))
    return parts


def colour_of(parts, word):
    """The colour of the first place where the word stands by itself."""
    text = "".join(piece for piece, _ in parts)
    at = re.search(r"(?<!\w)" + re.escape(word) + r"(?!\w)", text).start()
    for piece, colour in parts:
        if at < len(piece):
            return colour
        at -= len(piece)
    raise AssertionError(word)


def main():
    parts = coloured(sys.argv[1])
    colours = {}
    for name, words in CLASSES.items():
        found = {word: colour_of(parts, word) for word in words}
        if len(set(found.values())) != 1:
            sys.exit(f"{name}: words of one class have several colours: {found}")
        colours[name] = found[words[0]]
    for one, other in [("comment", "plain"), ("keyword", "plain"), ("string", "plain"), ("number", "plain"),
                       ("function", "plain"), ("comment", "string"), ("number", "string"), ("keyword", "string")]:
        if colours[one] == colours[other]:
            sys.exit(f"{one} and {other} have one colour: {colours[one]!r}")
    print(f"{sum(map(len, CLASSES.values()))} words have the colours of their classes")


main()
