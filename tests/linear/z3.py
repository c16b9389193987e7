"""Reads problems in SMT-LIB, separated by lines `;;`, and prints z3's verdict on each (`sat`, `unsat` or `unknown`)."""
import sys
import z3

for text in sys.stdin.read().split(";;\n"):
    if text.strip():
        solver = z3.SolverFor("QF_LIA") if "(* x" not in text else z3.Solver()
        solver.set("timeout", 2000)
        solver.from_string(text)
        print(solver.check())
