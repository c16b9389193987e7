#!/usr/bin/env python3
"""Draws a sample of a crate for a reader who has not seen it: readability.py FOLDER [COMMIT].

Prints 60 sentences of comments and 20 file names. The reader marks the sentences that are unclear without the code and states the purpose
of each file. The sample depends on the folder and on the commit alone (the current one if none is given), so it cannot be influenced.
"""
import os
import random
import re
import subprocess
import sys

SENTENCES, FILES = 60, 20


def sentences(path):
    """Yields the sentences of the comments of a Rust file, without code blocks."""
    text, in_code = "", False
    with open(path, encoding="utf-8") as lines:
        for line in [*lines, ""]:
            comment = re.match(r"\s*//[/!]?\s?(.*)", line)
            if comment and comment.group(1).startswith("```"):
                in_code = not in_code
            elif comment and not in_code:
                text += comment.group(1) + " "
            elif not comment:
                for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
                    if len(sentence.split()) >= 5:
                        yield sentence
                text, in_code = "", False


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    folder = sys.argv[1].rstrip("/")
    head = ["git", "rev-parse", "HEAD"]
    commit = sys.argv[2] if len(sys.argv) == 3 else subprocess.run(head, check=True, capture_output=True, text=True).stdout
    paths = sorted(
        os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".rs")
    )
    if not paths:
        sys.exit(f"there are no Rust files in `{folder}`")
    chooser = random.Random(f"{commit.strip()} {folder}")
    found = sorted({sentence for path in paths for sentence in sentences(path)})
    print("# Sentences")
    for sentence in chooser.sample(found, min(SENTENCES, len(found))):
        print("-", sentence)
    print("\n# Files")
    for path in chooser.sample(paths, min(FILES, len(paths))):
        print("-", path)


if __name__ == "__main__":
    main()
