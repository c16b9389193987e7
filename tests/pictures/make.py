"""Makes the pictures of this folder with Pillow and NumPy, for `tests/host/file_formats.rs`.

Each JPEG file has the pixels that libjpeg decodes beside it. The picture is smooth, so that decoders differ by rounding
only. The animation has the frames that a viewer shows beside it.
"""

import io
import struct
import zlib

import numpy as np
from PIL import Image

y, x = np.mgrid[0:21, 0:34]
red = 128 + 100 * np.sin(x / 6)
green = 128 + 100 * np.cos(y / 5)
blue = 255 * (x + y) / 53
color = Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))

color.save("color.jpg", quality=90)
color.save("full_chroma.jpg", quality=95, subsampling=0)
color.save("progressive.jpg", quality=85, progressive=True)
color.save("restarts.jpg", quality=90, restart_marker_rows=1)
color.convert("L").save("gray.jpg", quality=90)

for name in ["color", "full_chroma", "progressive", "restarts", "gray"]:
    Image.fromarray(np.asarray(Image.open(f"{name}.jpg"))).save(f"{name}.png", optimize=True)

# An animation whose frames cover parts of the picture, with each way to blend and to dispose.
frames = []
for step in range(6):
    frame = np.zeros((9, 12, 4), np.uint8)
    frame[step : step + 3, step : step + 5] = [40 * step, 255 - 40 * step, 90, 255 if step % 2 else 120]
    frames.append(Image.fromarray(frame))
frames[0].save(
    "parts.apng",
    format="PNG",
    save_all=True,
    append_images=frames[1:],
    disposal=[0, 1, 2, 0, 1, 0],
    blend=[0, 1, 1, 0, 1, 1],
)


def chunks(data):
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += length + 12


def png(header, data):
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


# Composes the frames as the PNG specification (third edition) says. Pillow blends translucent pixels differently.
shown, canvas, control, header = [], np.zeros((9, 12, 4)), None, None
for kind, body in chunks(open("parts.apng", "rb").read()):
    if kind == b"IHDR":
        header = body
    elif kind == b"fcTL":
        control = struct.unpack(">IIIIIHHBB", body)
    elif kind in (b"IDAT", b"fdAT"):
        _, width, height, left, top, _, _, dispose, blend = control
        size = struct.pack(">II", width, height)
        part = Image.open(io.BytesIO(png(size + header[8:], body if kind == b"IDAT" else body[4:])))
        part, before = np.asarray(part).astype(float), canvas.copy()
        area = canvas[top : top + height, left : left + width]
        upper, lower = part[..., 3:] / 255, area[..., 3:] / 255
        alpha = upper + (1 - upper) * lower
        color = (upper * part[..., :3] + (1 - upper) * lower * area[..., :3]) / np.where(alpha > 0, alpha, 1)
        over = np.where(upper > 0, np.concatenate([color, 255 * alpha], axis=-1), area)
        area[...] = np.rint(over) if blend == 1 else part
        shown.append(canvas.astype(np.uint8))
        if dispose == 1:
            area[...] = 0
        elif dispose == 2:
            canvas = before
np.save("parts.npy", np.stack(shown))
