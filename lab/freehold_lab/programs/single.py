"""single.py - programs that turn one input into one output: the time that they take
is the figure"""

import glob

from freehold_lab.programs.program import find, made, program, python_sources, script


@program("ghostscript", "ghostscript", "gs", pages=60, quick={"pages": 10})
def ghostscript(launch, pages):
    """ghostscript renders a document of text, curves and pictures"""
    made(launch, "document.py", pages, launch.folder / "document.ps")
    launch.program(["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r300",
                    "-sOutputFile=/dev/null", launch.folder / "document.ps"])


@program("perl-preprocessor", "perl linux-libc-dev", "perl", rounds=6, quick={"rounds": 1})
def perl_preprocessor(launch, rounds):
    """perl extracts the preprocessor's logic from the kernel's headers: conditions,
    nesting, macros"""
    headers = sorted(glob.glob("/usr/include/linux/**/*.h", recursive=True))
    launch.program(["perl", script("preprocessor.pl"), rounds, *headers])


@program("sqlite3", "sqlite3", "sqlite3", rounds=3, quick={"rounds": 1})
def sqlite3(launch, rounds):
    """sqlite3 fills tables, indexes them, joins and groups"""
    launch.program(["sh", "-c",
                    'i=0; while [ $i -lt "$0" ]; do rm -f work.db; sqlite3 -bail work.db <"$1" '
                    '>/dev/null || exit 1; i=$((i + 1)); done', rounds, script("work.sql")])


@program("z3", "z3", "z3")
def z3(launch):
    """z3 places queens and factors a product"""
    made(launch, "puzzle.py", launch.folder / "puzzle.smt2")
    launch.program(["z3", launch.folder / "puzzle.smt2"])


@program("lua", "lua5.4", "lua5.4", rounds=12, quick={"rounds": 2})
def lua(launch, rounds):
    """lua builds trees, joins strings, makes and calls closures"""
    launch.program(["lua5.4", script("work.lua"), rounds])


@program("python3", "python3-minimal libpython3-stdlib", "/usr/bin/python3", files=150,
         quick={"files": 50})
def python3(launch, files):
    """python3 makes an index of all words of its own library; every object comes from malloc"""
    launch.program(["/usr/bin/python3", script("words.py"), *python_sources(files)],
                   environment={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})


@program("ruby", "ruby libpython3-stdlib", "ruby", files=60, quick={"files": 20})
def ruby(launch, files):
    """ruby reads sources, splits, counts and sorts them"""
    launch.program(["ruby", script("work.rb"), *python_sources(files)])


@program("node", "nodejs libpython3-stdlib", "node", files=60, quick={"files": 20})
def node(launch, files):
    """node reads sources into objects, maps and buffers"""
    launch.program(["node", script("work.js"), *python_sources(files)])


@program("g++", "g++", "g++", classes=6, quick={"classes": 2})
def gxx(launch, classes):
    """g++ compiles a large unit of templates"""
    made(launch, "heavy_cpp.py", classes, launch.folder / "heavy.cc")
    launch.program(["g++", "-std=c++17", "-O1", "-c", launch.folder / "heavy.cc", "-o",
                    launch.folder / "heavy.o"])


@program("rocksdb", "rocksdb-tools", "/usr/*bin/db_bench", keys=200000, quick={"keys": 50000})
def rocksdb(launch, keys):
    """db_bench fills a database at random, overwrites it and reads it"""
    launch.program([find("/usr/*bin/db_bench"), "--benchmarks=fillrandom,overwrite,readrandom",
                    f"--num={keys}",
                    "--value_size=200", "--seed=1", "--threads=1", f"--db={launch.folder}/db"])
