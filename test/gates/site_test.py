"""The documentation site, as far as it can be seen without its tools: `./dev site` builds it."""
import importlib.util
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

def script():
    path = os.path.join(support.SOURCE, "tools", "site.py")
    spec = importlib.util.spec_from_file_location("freehold_site", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = script()

    def test_what_a_page_links_to_becomes_a_page_of_the_site(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = self.script.staged(folder)
            self.assertLessEqual({"README.md", "docs/tour.md", "src/heap/fast.h.md"}, pages)
            for page in (p for p in pages if p.endswith(".md")):
                text = re.sub(r"^```.*?^```|^````.*?^````", "",
                              support.read(os.path.join(folder, page)), flags=re.M | re.S)
                for link in self.script.LINK.findall(text):
                    target = os.path.join(folder, os.path.dirname(page), link)
                    self.assertTrue(os.path.isfile(target), "%s: %s" % (page, link))

    def test_every_page_of_the_documentation_is_in_the_list_of_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = self.script.staged(folder)
            listed = "\n".join(self.script.navigation(folder, pages))
            docs = [p for p in support.sources(".md", folder="docs")]
            self.assertEqual([p for p in docs if ": %s" % p not in listed], [])

    def test_a_link_that_leads_nowhere_is_found(self):
        with tempfile.TemporaryDirectory() as site:
            for number in range(20):
                self.script.write(os.path.join(site, "%d.html" % number), "<p id='here'>")
            self.assertEqual(list(self.script.broken_links(site)), [])
            for link, what in (("<a href='no.html'>", "links to no.html"),
                               ("<a href='1.html#no'>", "no such heading"),
                               ("<img src='no.png'>", "links to no.png"),
                               ("<script src='//elsewhere.example/x.js'>", "loads //elsewhere")):
                self.script.write(os.path.join(site, "0.html"), link)
                self.assertIn(what, "".join(self.script.broken_links(site)))
            good = "<a href='1.html#here'><a href='#x' id='x'><a href='https://elsewhere.example'>"
            self.script.write(os.path.join(site, "0.html"), good)
            self.assertEqual(list(self.script.broken_links(site)), [])

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
