"""machine.py - what a result depends on besides the allocator: the machine, and what
disturbs it while it measures"""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from freehold_lab.places import Failed, repository


def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def numbers(pattern):
    """The numbers in all files that match, from sysfs: there may be none."""
    found = []
    for path in sorted(Path("/").glob(pattern)):
        text = read(path).strip()
        if text.lstrip("-").isdigit():
            found.append(int(text))
    return found


def frequency():
    """MHz, the mean of all processors; None where the machine does not say."""
    kilohertz = numbers("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
    if kilohertz:
        return sum(kilohertz) / len(kilohertz) / 1000
    megahertz = [float(text)
                 for text in re.findall(r"^cpu MHz\s*: ([0-9.]+)", read("/proc/cpuinfo"), re.M)]
    return sum(megahertz) / len(megahertz) if megahertz else None


def temperature():
    """Degrees Celsius of the hottest sensor; None where none can be read."""
    sensors = (numbers("sys/class/thermal/thermal_zone*/temp")
               + numbers("sys/class/hwmon/hwmon*/temp*_input"))
    return max(sensors) / 1000 if sensors else None


@dataclass
class Moment:
    """The machine's counters at one time, to be compared with a later one."""
    total: int
    busy: int
    stolen: int
    own: float
    load: float

    @staticmethod
    def now():
        words = [int(word) for word in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
        idle, stolen = words[3] + words[4], words[7] if len(words) > 7 else 0
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return Moment(sum(words), sum(words) - idle - stolen, stolen, own, os.getloadavg()[0])

    def since(self, before):
        """The shares of all processor time that the hypervisor and other programs took,
        less what counting in whole ticks can be wrong by: one a counter. Of a run of a few
        ticks only much is noticed."""
        total = max(1, self.total - before.total)
        own = (self.own - before.own) * os.sysconf("SC_CLK_TCK")
        foreign = self.busy - before.busy - own - os.cpu_count() - 1
        stolen = self.stolen - before.stolen - 1
        return {"steal": max(0, stolen) / total, "foreign": max(0.0, foreign) / total}


def caches(root="/"):
    """The caches of the processors, and which of these share one: a dict for each level and type,
    with the lists of processors as the kernel writes them. None where it does not say."""
    found = {}
    for index in sorted(Path(root).glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*")):
        level, kind, size, line, shared = (
            read(index / name).strip()
            for name in ("level", "type", "size", "coherency_line_size", "shared_cpu_list"))
        if level:
            groups = found.setdefault((level, kind, size, line), [])
            if shared not in groups:
                groups.append(shared)
    return [{"level": int(level), "type": kind, "size": size, "line": f"{line} bytes",
             "shared by processors": "; ".join(sorted(groups, key=first_number))}
            for (level, kind, size, line), groups in sorted(found.items())]


def first_number(text):
    return int(re.match(r"\d*", text).group() or 0)


def commit(root=None):
    """The commit of the repository, and whether the sources differ from it."""
    try:
        root = root or repository()
        name = subprocess.run(["git", "-C", root, "rev-parse", "--short=12", "HEAD"],
                              capture_output=True, text=True)
        if name.returncode != 0:
            return "not in a repository"
        changed = subprocess.run(["git", "-C", root, "status", "--porcelain", "--", "src",
                                  "include"],
                                 capture_output=True, text=True).stdout.strip()
    except (Failed, FileNotFoundError):
        return "unknown"
    return name.stdout.strip() + (", with changes that are not committed" if changed else "")


def description():
    cpu = re.search(r"^model name\s*: (.*)$", read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo"), re.M)
    system = re.search(r'^PRETTY_NAME="(.*)"$', read("/etc/os-release"), re.M)
    pages = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "processor": cpu.group(1).strip() if cpu else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory": f"{int(memory.group(1)) / 2**20:.1f} GiB" if memory else "unknown",
        "system": system.group(1) if system else platform.system(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "transparent huge pages": pages.group(1) if pages else "not there",
        "virtual": read("/sys/class/dmi/id/product_name").strip() or
                   ("a hypervisor"
                    if re.search(r"^flags.*\bhypervisor\b", read("/proc/cpuinfo"), re.M) else "no"),
        "caches": caches(),
        "frequency": "read" if frequency() else "cannot be read here",
        "temperature": "read" if temperature() is not None else "cannot be read here",
        "freehold": commit(),
    }
