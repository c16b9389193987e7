"""Makes the data files that the examples read. Needs NumPy and safetensors; the results are kept in this folder."""
import struct
import zlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).parent
rng = np.random.default_rng(2026)


def png(path, rgb):
    """Writes an 8-bit RGB image, without a library."""
    h, w, _ = rgb.shape
    raw = b"".join(b"\0" + rgb[r].tobytes() for r in range(h))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


# shapes.png: a disc, a square and a gradient with a little noise
y, x = np.mgrid[0:120, 0:160]
rgb = np.stack([x, y, 160 - x], axis=-1) * 0.5
rgb[(x - 50) ** 2 + (y - 60) ** 2 < 30**2] = [230, 200, 40]
rgb[30:90, 100:140] = [40, 60, 220]
png(HERE / "shapes.png", np.clip(rgb + rng.normal(0, 2, rgb.shape), 0, 255).astype(np.uint8))

# flowers.csv: three kinds of 70 rows each, in blocks
centres = np.array([[5.0, 3.4, 1.4], [6.4, 2.8, 4.3], [7.6, 3.1, 6.6]])
rows = np.concatenate([c + rng.normal(0, 0.25, (70, 3)) for c in centres])
kind = np.repeat([0, 1, 2], 70)
with open(HERE / "flowers.csv", "w") as f:
    f.write("length,width,height,kind\n")
    for r, k in zip(rows, kind):
        f.write(",".join(f"{v:.3f}" for v in r) + f",{k}\n")

# two_classes.npz: points left and right of a line
points = rng.normal(0, 1, (1000, 2)).astype(np.float32)
label = (points @ [1.5, -1.0] + 0.3 + rng.normal(0, 0.3, 1000) > 0).astype(np.float32)
np.savez_compressed(HERE / "two_classes.npz", x=points, y=label)

# residues.npy: numbers below 2^31 - 1
np.save(HERE / "residues.npy", rng.integers(0, 2**31 - 1, (50, 100), dtype=np.uint32))

# roads.safetensors: a sparse graph; a large number means that there is no road
n = 60
d = np.full((n, n), 1e6, np.float32)
np.fill_diagonal(d, 0)
for i in range(n):
    d[i, (i + 1) % n] = rng.uniform(1, 10)
    for j in rng.integers(0, n, 3):
        if j != i:
            d[i, j] = rng.uniform(1, 30)
save_file({"distance": d}, HERE / "roads.safetensors")

# network.mtx: a ring of 100 nodes with 100 more links, each with a weight
n = 100
links = {(i + 1, i): rng.uniform(0.5, 2) for i in range(n - 1)} | {(n - 1, 0): 1.0}
while len(links) < 2 * n:
    i, j = rng.integers(0, n, 2)
    links[max(i, j), min(i, j)] = rng.uniform(0.5, 2)
with open(HERE / "network.mtx", "w") as f:
    f.write(f"%%MatrixMarket matrix coordinate real symmetric\n{n} {n} {len(links)}\n")
    for (i, j), weight in sorted(links.items()):
        f.write(f"{i + 1} {j + 1} {weight:.3f}\n")
