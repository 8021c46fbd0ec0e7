#!/usr/bin/env python3
"""Runs a test program of Windows, each of its tests in a process of its own, under wine or without.

usage: test/windows/run.py PROGRAM [--except WORD]... [--filter WORD]...
       test/windows/run.py PROGRAM --as-it-is [ARGUMENT]...

A test says on its standard output which deaths it expects (port.h): `death NUMBER PLACE PATTERN`.
Each is met in one more process, which must write one line that the pattern matches, and abort."""
import os
import re
import subprocess
import sys
import time

FAILED, SURVIVED, SKIPPED, ABORTED = 1, 42, 77, (134, 9)  # 9: what is left of 0xC0000409
SECONDS = 300

def run(program, *arguments):
    """Exit code, standard output and error."""
    wine = [] if os.name == "nt" else ["/usr/lib/wine/wine64"]
    environment = {"WINEDEBUG": "-all", **os.environ}
    try:
        done = subprocess.run([*wine, program, *arguments], env=environment, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return None, "", "ran longer than %d seconds\n" % SECONDS
    return done.returncode, done.stdout, done.stderr

def judge_apart(program, name, line):
    """What is wrong with a death that the test expects, or a life; None: nothing."""
    kind, number, place, pattern = line.split(" ", 3)
    code, own, text = run(program, "--run", name, number)
    pattern = own.split("\n")[0] if own else pattern
    if kind == "life":
        return None if code == SURVIVED else "%s: ended with %s\n%s" % (place, code, text)
    wrong = ("went unnoticed" if code == SURVIVED else
             "did not abort (%s)" % code if code not in ABORTED else
             "did not write exactly one line" if text.count("\n") != 1 else
             "wrote another line" if not re.search(pattern, text, re.M) else None)
    return wrong and "%s: %s\n  expected  %s\n  it wrote  %s" % (place, wrong, pattern, text)

def run_test(program, name):
    """The verdict, and what is to be shown of it."""
    code, out, text = run(program, "--run", name)
    if code == SKIPPED:
        return "skip", text
    if code != 0:
        return "FAILED", "%s(code %s)\n" % (text, code)
    apart = [line for line in out.splitlines() if line.startswith(("death ", "life "))]
    wrong = [w for w in (judge_apart(program, name, line) for line in apart) if w]
    return ("FAILED" if wrong else "ok"), "\n".join(wrong)

def main():
    program, *arguments = sys.argv[1:]
    if arguments[:1] == ["--as-it-is"]:
        code, out, text = run(program, *arguments[1:])
        print(out + text)
        sys.exit(code)
    code, out, text = run(program, "--list")
    names = [line for line in out.splitlines() if re.fullmatch(r"\w+\.\w+", line)]
    if code != 0 or not names:
        sys.exit("%s: no test program: %s%s" % (program, code, text))
    words = {kind: [word for option, word in zip(arguments, arguments[1:]) if option == kind]
             for kind in ("--except", "--filter")}
    counts = {"ok": 0, "FAILED": 0, "skip": 0}
    for name in names:
        if any(word == "." or word in name for word in words["--except"]):
            continue
        if words["--filter"] and not any(word in name for word in words["--filter"]):
            continue
        start = time.monotonic()
        verdict, text = run_test(program, name)
        counts[verdict] += 1
        group, sentence = name.split(".")
        print("%-6s %s: %s (%.2f s)" % (verdict, group, sentence.replace("_", " "),
                                        time.monotonic() - start))
        print(text, end="" if text.endswith("\n") or not text else "\n", flush=True)
    print("%d passed, %d failed, %d skipped" % (counts["ok"], counts["FAILED"], counts["skip"]))
    sys.exit(1 if counts["FAILED"] else 0 if counts["ok"] else SKIPPED)

if __name__ == "__main__":
    main()
