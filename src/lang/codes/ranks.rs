//! Pages of what ranks, the processes that run one script together, may do wrong: `E055x`.

use super::page::Page;

pub(crate) const PAGES: &[Page] = &[
    Page {
        code: "E0550",
        title: "ranks that do not do the same",
        text: r#"
The ranks of a script run the same program, so `all_reduce`, `all_gather`, `reduce_scatter` and `broadcast` are calls that all of them
make, in the same order, with values of one type and shape. Each call is compared with those of the other ranks, and where two differ, all
ranks end with both lines: else they would wait for each other for ever, or compute with each other's numbers. So do ranks of which each
waits for another, a rank that waits for one whose script is over, and one that ends without having received what was sent to it.

Here rank 0 would wait for the others, which never come:

```text
if rank() == 0 {
    print(all_reduce(x))
}
```

What all have to call stands outside of the `if`:

```clk
let x = ones(3)
let total = all_reduce(x)
if rank() == 0 { print(total) }
```
"#,
    },
    Page {
        code: "E0551",
        title: "another rank has failed",
        text: r#"
When a rank fails, by an error of its own or because its process was ended, the others end, too: they would wait for it for ever. The message
is that of the rank that failed; its own output has all of it. The exit code of the others is 4, and `clk run --ranks` gives that of the
rank that failed.
"#,
    },
    Page {
        code: "E0552",
        title: "no such rank, operation or part",
        text: r#"
Ranks count from 0 to `ranks() - 1`, the operations of `all_reduce` and `reduce_scatter` are "sum", "prod", "min" and "max", and
`reduce_scatter` cuts the first axis into `ranks()` equal parts, of which its extent has to be a multiple. A rank neither sends to itself nor
receives from itself.

```clk fails
let x = broadcast([1, 2, 3], from = 5000)
```

```clk
let x = broadcast([1, 2, 3], from = ranks() - 1)
```
"#,
    },
    Page {
        code: "E0553",
        title: "a derivative through other ranks",
        text: r#"
Derivatives are taken by each rank for itself. A function that exchanges what the derivative is taken of has none; take the derivative of what a
rank computes alone, and exchange that.

```clk fails
fn loss(w: [f32; N]) -> f32 { all_reduce(sum(w * w)) }
print(grad(loss)([1.0, 2.0]))
```

```clk
fn loss(w: [f32; N]) -> f32 { sum(w * w) }
print(all_reduce(grad(loss)([1.0, 2.0])))
```
"#,
    },
    Page {
        code: "E0554",
        title: "ranks that do not come together",
        text: r#"
The ranks of a script meet at rank 0 before it starts. They need the same version of Clk and the same program, down to the last character of
all files that it imports. Where rank 0 is, is said by the variables of the launcher or by `CLK_HOST` and `CLK_PORT`; a firewall between two
nodes has to let that port pass. A rank waits for the others for 300 seconds, or for as many as `CLK_RANKS_WAIT` says.

A rank that runs another program or version ends the others if all know one `CLK_TOKEN`. Without a token rank 0 refuses it and waits on, because
anybody could have connected; the message after the wait names the reason.

If a port is in use, another job of the same node has it: `CLK_PORT` names another one, the same for all ranks.
"#,
    },
];
