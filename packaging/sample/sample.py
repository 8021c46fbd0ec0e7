"""sample.py - the same in Python, with the package freehold."""
import freehold

freehold.install()
blocks = [bytes(n) for n in range(1000)]
print("Python on freehold %s: %d bytes live" % (freehold.version(), freehold.stats()["live_bytes"]))
