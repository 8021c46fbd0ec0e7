"""machine.py - what a result depends on besides the allocator: the machine, its load, the commit"""

import os
import platform
import re
import subprocess
from pathlib import Path


def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def pressure():
    """The load average, and the processors' ticks: all and those that the hypervisor took."""
    ticks = [int(word) for word in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    load = float(read("/proc/loadavg").split()[0])
    return {"load": load, "all": sum(ticks), "stolen": ticks[7] if len(ticks) > 7 else 0}


def steal_since(before):
    """The share of processor time that the hypervisor took since then."""
    now = pressure()
    return (now["stolen"] - before["stolen"]) / max(1, now["all"] - before["all"])


def facts():
    cpu = re.search(r"^model name\s*: (.*)$", read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo"), re.M)
    system = re.search(r'^PRETTY_NAME="(.*)"$', read("/etc/os-release"), re.M)
    kernel = re.match(r"[0-9.]*[0-9]", platform.release())
    pages = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled"))
    libc = platform.libc_ver()
    return {
        "processor": f"{cpu.group(1).strip() if cpu else platform.machine()}, {os.cpu_count()} processors",
        "memory": f"{int(memory.group(1)) / 2**20:.0f} GiB" if memory else "?",
        "system": f"{system.group(1) if system else platform.system()}, Linux {kernel.group() if kernel else '?'}, "
                  f"{libc[0]} {libc[1]}",
        "transparent huge pages": pages.group(1) if pages else "not there",
    }


def commit(root):
    """The commit that was built, and whether the sources differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    try:
        name = git("rev-parse", "--short=12", "HEAD")
        if name.returncode != 0:
            return "not in a repository"
        changed = git("status", "--porcelain", "--", "src", "include").stdout.strip()
    except FileNotFoundError:
        return "unknown: git is not installed"
    return name.stdout.strip() + (", with changes that are not committed" if changed else "")


def version(path):
    """The Debian package and version that a library belongs to, if one does."""
    if path is None:
        return platform.libc_ver()[1]
    try:
        owner = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if owner.returncode != 0:
            return ""
        package = owner.stdout.split(": ")[0].split(":")[0]
        return subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}", package], capture_output=True,
                              text=True).stdout
    except FileNotFoundError:
        return ""
