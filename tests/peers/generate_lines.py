#!/usr/bin/env python3
"""Writes a Clk program of about LINES lines, to measure the speed of `clk check`: generate_lines.py LINES > big.clk"""
import sys

PIECE = '''
/// Doc comment of number {i}.
struct Point{i} {{
    place: f32x3,
    weight: f32,
}}

fn shape{i}(x: f32, y: f32) -> f32 {{
    let r = sqrt(x * x + y * y) + {i}.5
    if r > 1.0 {{ 1.0 / r }} else {{ r * r - 0.25 }}
}}

kernel relax{i}(a: [f32; H, W], scale: f32, out b: [f32; H, W]) threads(row: H, col: W) {{
    let up = max(row - 1, 0)
    let down = min(row + 1, H - 1)
    var acc = a[up, col] + a[down, col]
    for k in 0..4 {{
        acc += shape{i}(acc, f32(k) * scale)
    }}
    // The middle counts twice.
    b[row, col] = 0.25 * (acc + 2.0 * a[row, col])
}}

kernel gather{i}(p: [Point{i}; N], inout total: [f32; 1]) grid(ceil_div(N, 256)) block(256) {{
    shared part: [f32; 256]
    let t = thread_idx.x
    let i = global_idx.x
    part[t] = if i < N {{ p[i].weight * dot(p[i].place, p[i].place) }} else {{ 0.0 }}
    barrier()
    var d = 128
    while d > 0 {{
        if t < d {{ part[t] += part[t + d] }}
        barrier()
        d /= 2
    }}
    if t == 0 {{ atomic_add(total[0], part[0]) }}
}}

let grid{i} = random(8, 8, seed = {i})
let next{i} = relax{i}(grid{i}, 0.5)
assert(all(next{i} == next{i}), "number {{{i}}}")
'''


def main():
    lines = int(sys.argv[1])
    each = PIECE.count("\n")
    for i in range((lines + each - 1) // each):
        sys.stdout.write(PIECE.format(i=i))


if __name__ == "__main__":
    main()
