"""docs/use-with.md: every block of commands ends well, and freehold has served it."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "use-with.md")
INSTALLED = os.environ.get("FREEHOLD_INSTALLED", "/usr/local")      # by make install PREFIX=...
SERVED = re.compile(r"^Go on freehold .*: \d+ bytes live$|^freehold [\w.-]+\nmemory$", re.M)


def blocks():
    """Each with the heading above it."""
    with open(PAGE, encoding="utf-8") as file:
        for part in re.split(r"^## ", file.read(), flags=re.M)[1:]:
            for block in re.findall(r"^```sh\n(.*?)^```", part, re.M | re.S):
                yield part.splitlines()[0], block


def environment():
    library, header = (os.path.join(INSTALLED, name) for name in ("lib", "include"))
    return {**os.environ, "FREEHOLD_SOURCE": ROOT,
            "PATH": os.path.join(INSTALLED, "bin") + ":" + os.environ["PATH"],
            "CGO_CFLAGS": "-I" + header, "LD_LIBRARY_PATH": library,
            "PKG_CONFIG_PATH": os.path.join(library, "pkgconfig"),
            "CGO_LDFLAGS": "-L%s -Wl,-rpath,%s" % (library, library)}


class UseWith(unittest.TestCase):
    def run_block(self, block):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(["sh", "-ec", block], cwd=folder, env=environment(), text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=1800)

    def test_every_block_ends_well_and_was_served(self):
        found = list(blocks())
        self.assertGreater(len(found), 8)
        for heading, block in found:
            with self.subTest(heading=heading):
                result = self.run_block(block)
                self.assertEqual(result.returncode, 0, result.stdout[-2000:])
                self.assertRegex(result.stdout, SERVED)

    def test_a_program_that_it_does_not_serve_is_found_out(self):
        self.assertNotRegex(self.run_block("echo hello; ls /").stdout, SERVED)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
