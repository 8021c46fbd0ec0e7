"""small.py - command-line tools on small input: what they need in all is a few MB, so what an
allocator takes for itself shows"""

import json
import os
import random

from freehold_lab.programs.program import PYTHON, find, made, program

CC1 = "/usr/lib/gcc/*/*/cc1"
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
       "GIT_CONFIG_VALUE_0": "*", "GIT_OPTIONAL_LOCKS": "0"}


def text(launch, name="text", lines=1500, seed=1):
    """A file of made-up words, the same each time."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(2, 9))) for _ in range(400)]
    body = "\n".join(" ".join(chance.choices(words, k=chance.randint(3, 12)))
                     for _ in range(lines))
    (launch.folder / name).write_text(body + "\n")
    return name


def tree(launch):
    """A folder of 30 folders with 10 files each."""
    for number in range(30):
        folder = launch.folder / "tree" / f"part{number:02}"
        folder.mkdir(parents=True, exist_ok=True)
        for file in range(10):
            (folder / f"file{file}.txt").write_text(f"{number} {file}\n" * (file + 1))
    return "tree"


def small(name, packages, command, about):
    """Registers a tool. The function makes its input and returns the words behind the command, what
    it reads, and its environment."""
    def register(arguments):
        def work(launch):
            words, given, environment = arguments(launch)
            launch.program(find(command), *words, give=given, is_brief=True,
                           environment={"HOME": str(launch.folder), **environment})
            return {"seconds": launch.costs.get("wall"), "private": launch.costs.get("private")}
        work.__doc__ = about
        program(f"small-{name}", packages, command)(work)
        return arguments
    return register


def simple(name, packages, command, about, *words, given=b""):
    """One whose words are fixed; `text` among them is the file of that name."""
    @small(name, packages, command, about)
    def _(launch):
        text(launch)
        return words, given, {}


simple("awk", "gawk", "gawk", "gawk counts words",
       "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print n[w], w }", "text")
simple("mawk", "mawk", "mawk", "mawk counts words",
       "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print n[w], w }", "text")
simple("sed", "sed", "sed", "sed edits a text", "-e", r"s/\(a.\)\([b-f]\)/\2\1/g", "-e", "/ab/d",
       "text")
simple("sort", "coreutils", "sort", "sort sorts a text", "text")
simple("grep", "grep", "grep", "grep counts lines", "-E", "-c", "a(b|c)+.*[d-f]$", "text")
simple("gzip", "gzip", "gzip", "gzip compresses a text", "-c", "text")
simple("wc", "coreutils", "wc", "wc counts lines and words", "text")
simple("dash", "dash", "dash", "dash counts in a loop", "-c",
       "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; echo $i")
simple("bash", "bash", "bash", "bash fills an array", "-c",
       'for i in {1..300}; do a[i]="item $i"; done; echo "${a[@]}"')
simple("python3", "python3-minimal", PYTHON, "python3 evaluates an expression", "-S", "-c",
       "print(sum(len(str(n)) for n in range(1000)))")
simple("perl", "perl-base", "perl", "perl fills a table", "-e",
       'my %h; $h{$_} = "value $_" for 1 .. 500; print join(",", map { $h{$_} } 1 .. 500), "\n"')
simple("bc", "bc", "bc", "bc finds a hundred digits", "-l", "-q", given="scale=100\n4*a(1)\nquit\n")
simple("dc", "dc", "dc", "dc raises to a power", "-e", "3 500^ p")
simple("openssl", "openssl", "openssl", "openssl hashes a text", "sha256", "text")
simple("sqlite3", "sqlite3", "sqlite3", "sqlite3 fills a table and sums it", "-batch", ":memory:",
       given="create table t(a integer primary key, b text);\nwith recursive c(x) as (select 1 "
             "union all select x + 1 from c where x < 500)\ninsert into t select x, 'row ' || x "
             "from c;\nselect count(*), sum(length(b)) from t;\n")


@small("ls", "coreutils", "ls", "ls lists a tree")
def ls(launch):
    return ["-l", "-n", "-R", tree(launch)], b"", {}


@small("find", "findutils", "find", "find walks a tree")
def find_files(launch):
    return [tree(launch), "-name", "*3.txt", "-size", "-9"], b"", {}


@small("tar", "tar", "tar", "tar packs a tree")
def tar(launch):
    return ["-c", "-f", "packed.tar", "--sort=name", tree(launch)], b"", {}


@small("diff", "diffutils", "diff", "diff compares a text with itself")
def diff(launch):
    return ["-u", text(launch), text(launch, "again")], b"", {}


@small("jq", "jq", "jq", "jq picks fields of a list")
def jq(launch):
    rows = [{"name": f"row {n}", "value": n, "tags": ["a", "b", str(n % 7)]} for n in range(200)]
    return ["-c", ".[] | {name, last: .tags[2]}"], json.dumps(rows), {}


@small("make", "make", "make", "make tells what it would do")
def make(launch):
    rules = "".join(f"part{n}:\n\techo part {n}\n" for n in range(60))
    (launch.folder / "Makefile").write_text(
        f"all: {' '.join(f'part{n}' for n in range(60))}\n{rules}")
    return ["-n"], b"", {}


@small("cc1", "gcc-12 libc6-dev", CC1, "the C compiler compiles a small file")
def cc1(launch):
    body = "".join(f"int f{n}(int x) {{ return x * {n} + f{n - 1}(x); }}\n" for n in range(1, 30))
    (launch.folder / "unit.c").write_text(
        f"int printf(const char *, ...);\nint f0(int x) {{ return x; }}\n{body}"
        'int main(void) { return printf("%d\\n", f29(2)) < 0; }\n')
    return ["-quiet", "-O1", "unit.c", "-o", "unit.s"], b"", {}


@small("ssh-keygen", "openssh-client", "ssh-keygen", "ssh-keygen tells a key's fingerprint")
def ssh_keygen(launch):
    key = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "Ab" * 21 + "A"
    (launch.folder / "key.pub").write_text(f"ssh-ed25519 {key} someone\n")
    return ["-l", "-f", "key.pub"], b"", {}


@small("git", "git", "git", "git tells the state of a work tree")
def git(launch):
    repository = launch.folder / "work"
    if not repository.exists():
        stream = made(launch, "history.py", 20)
        launch.client("git", "init", "-q", "-b", "main", repository, environment=GIT)
        launch.client("git", "-C", repository, "fast-import", "--quiet", give=stream,
                      environment=GIT)
        launch.client("git", "-C", repository, "reset", "-q", "--hard", "main", environment=GIT)
        for path in repository.glob("[!.]*/**/*"):      # older than the index, which is trusted
            os.utime(path, (1e9, 1e9))
        launch.client("git", "-C", repository, "update-index", "-q", "--refresh", environment=GIT)
    return ["-C", repository, "status", "--short"], b"", GIT
