"""Values and pictures as MIME bundles, the format in which Jupyter displays them."""

from __future__ import annotations

import base64

#: The CSS style of the HTML tables that show arrays.
_STYLE = (
    "<style>.clk-array table{border-collapse:collapse}.clk-array td,.clk-array th"
    "{text-align:right;font-family:monospace;padding:2px 8px}.clk-array th{opacity:.5;font-weight:normal}"
    ".clk-array p{margin:4px 0}</style>"
)


def value(text: str, html: str | None) -> dict[str, str]:
    """The MIME bundle of a value."""
    return {"text/plain": text} if html is None else {"text/plain": text, "text/html": _STYLE + html}


def picture(mime: str, content: bytes, text: str) -> dict[str, str]:
    """The MIME bundle of a picture."""
    data = content.decode() if mime.endswith("xml") else base64.b64encode(content).decode()
    return {mime: data, "text/plain": text}
