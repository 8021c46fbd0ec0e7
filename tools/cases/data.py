"""data.py - cases: programs that turn one large input into one large output"""

import sys

from cases.case import case, digest
from running import WORK


@case("sqlite3", "sqlite3", main="sqlite3")
def sqlite3(run):
    return run.program("sqlite3", "-bail", "work.db", give=(WORK / "work.sql").read_text())


@case("ffmpeg", "ffmpeg", main="ffmpeg")
def ffmpeg(run):
    """Encodes a moving test picture and a tone, reads them back, and lists a hash
    for each frame."""
    quiet = ["ffmpeg", "-nostdin", "-v", "error", "-bitexact"]
    run.program(*quiet, "-f", "lavfi", "-i", "testsrc=size=480x270:rate=25:duration=6", "-f",
                "lavfi", "-i", "sine=frequency=440:duration=6", "-vf",
                "hue=s=0.7,drawgrid=w=40:h=40", "-c:v", "libx264", "-preset",
                "veryfast", "-threads", "2", "-c:a", "aac", "-y", "video.mkv")
    frames = run.program(*quiet, "-i", "video.mkv", "-f", "framemd5", "-")
    scaled = run.program(*quiet, "-i", "video.mkv", "-vf", "scale=160:90,transpose", "-c:v",
                         "mpeg4", "-threads", "2", "-an", "-f", "md5", "-")
    return [frames, scaled]


@case("z3", "z3", main="z3")
def z3(run):
    """Places queens and factors a product: both have answers that can be read from the output."""
    run.client(sys.executable, WORK / "puzzle.py", "puzzle.smt2")
    return run.program("z3", "puzzle.smt2")


@case("ghostscript", "ghostscript", main="gs")
def ghostscript(run):
    run.client(sys.executable, WORK / "document.py", "30", "document.ps")
    seen = []
    for device in ("png16m", "pgmraw"):
        run.program("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", f"-sDEVICE={device}", "-r72",
                    "-dTextAlphaBits=4", f"-sOutputFile={device}%02d", "document.ps")
        seen += [digest((run.folder / f"{device}{page:02}").read_bytes()) for page in range(1, 31)]
    return seen


CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--no-first-run", "--disable-component-update", "--disable-sync", "--disable-quic",
            "--disable-dev-shm-usage", "--virtual-time-budget=20000"]


@case("chromium", "chromium", main="chromium")
def chromium(run):
    """A local page whose script builds, sorts and rewrites a document of some thousand nodes."""
    return run.program("chromium", *CHROMIUM, f"--user-data-dir={run.folder}/profile", "--dump-dom",
                       f"file://{WORK}/page.html", environment={"HOME": str(run.folder)})
