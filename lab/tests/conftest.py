"""conftest.py - what the tests share: a cache of their own, a fake workload,
allocators that only have names"""

import json
import shutil
import stat
from pathlib import Path

import pytest

from freehold_lab import experiment
from freehold_lab.allocators import Allocator, libc_path
from freehold_lab.group import Group
from freehold_lab.places import Broken
from freehold_lab.workloads import BenchProgram, Figure

# Answers as the workloads do; what it does besides is its option --do, for
# the allocator --to alone.
FAKE = """#!/bin/sh
while [ $# -gt 0 ]; do eval "${1#--}=\\$2"; shift 2; done
case ${LD_PRELOAD##*/} in *"$to"*) ;; *) do=nothing ;; esac
case $do in
  crash) kill -SEGV $$ ;;
  hang) exec sleep 1000 ;;
  lie) LD_PRELOAD=/lib/other.so ;;
  fail) echo "no memory left" >&2; exit 3 ;;
  babble) echo hello; exit 0 ;;
  hog) head -c 60000000 /dev/zero | tail -n 1 >/dev/null || exit 3 ;;
esac
echo "{\\"workload\\": \\"fake\\", \\"malloc\\": \\"$LD_PRELOAD\\", \\"ns\\": 1$size}"
"""


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Every test process compiles the helpers into a folder of its own."""
    patch = pytest.MonkeyPatch()
    patch.setenv("FREEHOLD_LAB_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture
def workloads(tmp_path):
    script = tmp_path / "fake"
    script.write_text(FAKE)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    parameters = {"size": 1, "threads": 1, "do": "nothing", "to": ""}
    return {"fake": BenchProgram("fake", script, "a fake", Figure("ns", "ns"), parameters,
                                 {"size": 2}),
            "gone": BenchProgram("gone", tmp_path / "gone", "not there", Figure("ns", "ns"),
                                 {"size": 1})}


@pytest.fixture
def allocators():
    """libc, and two libraries that change nothing: what runs are is of no matter here."""
    folder = Path(libc_path()).parent
    return [Allocator("libc", libc_path()), Allocator("math", str(folder / "libm.so.6")),
            Allocator("resolve", str(folder / "libresolv.so.2"))]


@pytest.fixture
def limits():
    """Memory can be limited here; else the test is skipped."""
    try:
        with Group(1 << 20):
            pass
    except Broken as problem:
        pytest.skip(str(problem))


@pytest.fixture
def make(workloads):
    """An experiment from a table; its machine is never too busy unless it says so."""
    def made(**table):
        whole = {"name": "test", "replicates": 2, "time_limit": 30, "parts": [{"workload": "fake"}],
                 "disturbance": {"steal": 2.0, "foreign": 2.0}, **table}
        return experiment.parse(whole, json.dumps(whole), "test.toml", workloads)
    return made


@pytest.fixture
def browser(tmp_path):
    """Without a display and without a network; it keeps a log of what pages ask for."""
    from selenium import webdriver
    assert shutil.which("chromedriver"), "no chromedriver here; Debian's package is chromium-driver"
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--window-size=1300,1000", "--host-resolver-rules=MAP * ~NOTFOUND",
                 f"--user-data-dir={tmp_path}/profile"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(300)          # on a machine that does much else
    yield driver
    driver.quit()


@pytest.fixture
def opens_by_itself(browser):
    """Opens a page, which must load without an error and ask for nothing from elsewhere."""
    def opens(page):
        browser.get(Path(page).as_uri())
        assert browser.find_element("tag name", "body").get_attribute("data-ready") == "yes"
        assert [entry["message"] for entry in browser.get_log("browser")] == []
        asked = [json.loads(entry["message"])["message"]
                 for entry in browser.get_log("performance")]
        addresses = {event["params"]["request"]["url"].split(":")[0] for event in asked
                     if event["method"] == "Network.requestWillBeSent"}
        assert "file" in addresses and not addresses & {"http", "https", "ws", "wss", "ftp"}
        return browser

    return opens
