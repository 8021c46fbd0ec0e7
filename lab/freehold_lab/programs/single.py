"""single.py - programs that turn one input into one output: the time that they take
is the figure"""

from freehold_lab.programs.program import (MALLOC_ONLY, PYTHON, compare, digest, find, made,
                                           program, python_sources, script)


@program("ghostscript", "ghostscript", "gs", pages=60, quick={"pages": 10})
def ghostscript(launch, pages):
    """ghostscript renders a document of text, curves and pictures"""
    made(launch, "document.py", pages, "document.ps")
    launch.program("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r300",
                   "-sOutputFile=/dev/null", "document.ps")


@program("ghostscript-nodisplay", "ghostscript", "gs", pages=900, quick={"pages": 20})
def ghostscript_nodisplay(launch, pages):
    """ghostscript interprets a document of 37 MB and shows nothing of it"""
    made(launch, "document.py", pages, "document.ps")
    launch.program("gs", "-q", "-dBATCH", "-dNODISPLAY", "-dNOPAUSE", "-dSAFER", "document.ps")


@compare("ghostscript", "ghostscript", "gs")
def ghostscript_pages(launch):
    made(launch, "document.py", 30, "document.ps")
    seen = []
    for device in ("png16m", "pgmraw"):
        launch.program("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", f"-sDEVICE={device}", "-r72",
                       "-dTextAlphaBits=4", f"-sOutputFile={device}%02d", "document.ps")
        seen += [digest((launch.folder / f"{device}{page:02}").read_bytes())
                 for page in range(1, 31)]
    return seen


@program("sqlite3", "sqlite3", "sqlite3", compared={"rounds": 1}, rounds=3, quick={"rounds": 1})
def sqlite3(launch, rounds):
    """sqlite3 fills tables, indexes them, joins and groups"""
    return launch.program("sh", "-c",
                          'i=0; while [ $i -lt "$0" ]; do rm -f work.db; sqlite3 -bail work.db '
                          '<"$1" || exit 1; i=$((i + 1)); done', rounds, script("work.sql"))


@program("z3", "z3", "z3", compared={})
def z3(launch):
    """z3 places queens and factors a product: both answers can be read from the output"""
    made(launch, "puzzle.py", "puzzle.smt2")
    return launch.program("z3", "puzzle.smt2")


@program("rocksdb", "rocksdb-tools", "/usr/*bin/db_bench", keys=200000, quick={"keys": 50000})
def rocksdb(launch, keys):
    """db_bench fills a database at random, overwrites it and reads it"""
    launch.program(find("/usr/*bin/db_bench"), "--benchmarks=fillrandom,overwrite,readrandom",
                   f"--num={keys}", "--value_size=200", "--seed=1", "--threads=1",
                   f"--db={launch.folder}/db")


@compare("ffmpeg", "ffmpeg", "ffmpeg")
def ffmpeg(launch):
    """Encodes a moving test picture and a tone, reads them back, and lists a hash
    for each frame."""
    quiet = ["ffmpeg", "-nostdin", "-v", "error", "-bitexact"]
    launch.program(*quiet, "-f", "lavfi", "-i", "testsrc=size=480x270:rate=25:duration=6", "-f",
                   "lavfi", "-i", "sine=frequency=440:duration=6", "-vf",
                   "hue=s=0.7,drawgrid=w=40:h=40", "-c:v", "libx264", "-preset",
                   "veryfast", "-threads", "2", "-c:a", "aac", "-y", "video.mkv")
    frames = launch.program(*quiet, "-i", "video.mkv", "-f", "framemd5", "-")
    scaled = launch.program(*quiet, "-i", "video.mkv", "-vf", "scale=160:90,transpose", "-c:v",
                            "mpeg4", "-threads", "2", "-an", "-f", "md5", "-")
    return [frames, scaled]


CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--no-first-run", "--disable-component-update", "--disable-sync", "--disable-quic",
            "--disable-dev-shm-usage", "--virtual-time-budget=20000"]


@compare("chromium", "chromium", "chromium")
def chromium(launch):
    """A local page whose script builds, sorts and rewrites a document of some thousand nodes."""
    return launch.program("chromium", *CHROMIUM, f"--user-data-dir={launch.folder}/profile",
                          "--dump-dom", f"file://{script('page.html')}",
                          environment={"HOME": str(launch.folder)})


# ---- programs that allocate much, for `freehold-lab misses` --------------------------------------


@program("python3-tree", "python3-minimal", PYTHON)
def python3_tree(launch):
    """python3 builds a tree and a table; every object comes from malloc"""
    launch.program(PYTHON, "-S", "-c", script("tree.py").read_text(), environment=MALLOC_ONLY)


@program("perl-table", "perl", "perl")
def perl_table(launch):
    """perl fills a table of lists and removes half of it"""
    launch.program("perl", "-e", script("table.pl").read_text(),
                   environment={"PERL_HASH_SEED": "0"})


@program("awk-strings", "mawk", "awk")
def awk_strings(launch):
    """awk lets strings grow"""
    launch.program("awk", script("strings.awk").read_text())


@program("sort", "coreutils libpython3-stdlib", "sort", rounds=4)
def sort(launch, rounds):
    """sort sorts the lines of Python's library, several times over, in memory"""
    launch.program("sort", "--parallel=2", "-o", "/dev/null", *rounds * python_sources(150))


@program("sqlite3-index", "sqlite3", "sqlite3")
def sqlite3_index(launch):
    """sqlite3 makes a table and an index in memory"""
    launch.program("sqlite3", "-batch", ":memory:", give=script("index.sql").read_text())
