"""puzzle.py FILE - writes problems for an SMT solver whose answers are known: queens, a
factored product, a riddle"""

import sys


def queens(size):
    yield "(push)"
    for i in range(size):
        yield f"(declare-const q{i} Int) (assert (and (<= 0 q{i}) (< q{i} {size})))"
    yield "(assert (distinct " + " ".join(f"q{i}" for i in range(size)) + "))"
    for sign in "+-":
        yield "(assert (distinct " + " ".join(f"({sign} q{i} {i})" for i in range(size)) + "))"
    yield "(check-sat)\n(pop)"


def product(p, q, bits):
    """Only one pair of factors with a <= b and both above 1 is there to be found."""
    yield f"(push)\n(declare-const a (_ BitVec {bits})) (declare-const b (_ BitVec {bits}))"
    for limit in ("a", "b"):
        yield (f"(assert (bvult {limit} (_ bv{1 << bits // 2} {bits}))) "
               f"(assert (bvult (_ bv1 {bits}) {limit}))")
    yield (f"(assert (bvule a b)) (assert (= (bvmul a b) (_ bv{p * q} {bits})))\n"
           "(check-sat)\n(get-value (a b))\n(pop)")


def pigeons(count):
    """One more pigeon than holes: unsatisfiable, after much search."""
    yield "(push)"
    for p in range(count + 1):
        yield " ".join(f"(declare-const p{p}h{h} Bool)" for h in range(count))
        yield "(assert (or " + " ".join(f"p{p}h{h}" for h in range(count)) + "))"
    for h in range(count):
        for one in range(count + 1):
            for other in range(one):
                yield f"(assert (not (and p{one}h{h} p{other}h{h})))"
    yield "(check-sat)\n(pop)"


def arrays(size):
    """Stores in two orders give equal arrays when the places differ."""
    yield "(push)\n(declare-const m (Array Int Int))"
    places = [f"(declare-const i{n} Int) (declare-const v{n} Int)" for n in range(size)]
    yield "\n".join(places)
    yield "(assert (distinct " + " ".join(f"i{n}" for n in range(size)) + "))"
    one = other = "m"
    for n in range(size):
        one, other = f"(store {one} i{n} v{n})", f"(store {other} i{size - 1 - n} v{size - 1 - n})"
    yield f"(assert (not (= {one} {other})))\n(check-sat)\n(pop)"


def main(path):
    with open(path, "w", encoding="ascii") as file:
        for part in (queens(10), product(3571, 4093, 28), pigeons(7), arrays(5)):
            file.write("\n".join(part) + "\n")


main(sys.argv[1])
