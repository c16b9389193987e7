"""Highlights a sample with bat, and checks that words of the same class have the same color."""

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

# The words of a class must have the same color, and different classes different colors.
CLASSES = {
    "comment": ["doc", "inner"],
    "keyword": ["if", "else", "for", "in", "step", "on", "batch"],
    "storage": ["const", "out"],
    "string": ["text", "// more"],
    "number": ["4", "2.5f64", "10"],
    "function": ["sqrt", "barrier"],
    "plain": ["time", "grid"],
}


def highlight(bat):
    """Returns the highlighted sample as pairs of text and escape sequence."""
    command = [bat, "--color=always", "--style=plain", "--theme=Monokai Extended", "--language=Clk", "-"]
    out = subprocess.run(command, input=SAMPLE, capture_output=True, text=True, check=True).stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", out).strip() == SAMPLE.strip(), "bat changed the text"
    parts, color = [], ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", out):
        if piece.startswith("\x1b"):
            color = "" if piece in ("\x1b[0m", "\x1b[m") else piece
        elif piece:
            parts.append((piece, color))
    return parts


def color_of(parts, word):
    """Returns the color of the first occurrence of the word as a whole word."""
    text = "".join(piece for piece, _ in parts)
    offset = re.search(r"(?<!\w)" + re.escape(word) + r"(?!\w)", text).start()
    for piece, color in parts:
        if offset < len(piece):
            return color
        offset -= len(piece)
    raise AssertionError(word)


def main():
    parts = highlight(sys.argv[1])
    colors = {}
    for name, words in CLASSES.items():
        by_word = {word: color_of(parts, word) for word in words}
        if len(set(by_word.values())) != 1:
            sys.exit(f"{name}: words of the same class have different colors: {by_word}")
        colors[name] = by_word[words[0]]
    for first, second in [("comment", "plain"), ("keyword", "plain"), ("string", "plain"), ("number", "plain"),
                       ("function", "plain"), ("comment", "string"), ("number", "string"), ("keyword", "string")]:
        if colors[first] == colors[second]:
            sys.exit(f"{first} and {second} have the same color: {colors[first]!r}")
    print(f"{sum(map(len, CLASSES.values()))} words have the colors of their classes")


main()
