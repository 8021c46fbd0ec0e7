"""servers.py - servers under a fixed load: requests a second are the figure, the server's
time and memory the costs

The clients have libc's malloc always. Servers that refuse to be root run as the users
that their packages made.
"""

import os
import re
import shutil
import signal
from pathlib import Path

from freehold_lab.places import Failed, cache
from freehold_lab.programs.program import find, listens, program
from freehold_lab.workloads import Figure

RATE = Figure("requests_per_second", "1/s", lower_is_better=False)


def rate_in(text, pattern, what):
    found = re.findall(pattern, text)
    if not found:
        raise Failed(f"{what} gives no rate: {text.strip()[-200:]!r}")
    return [float(rate) for rate in found]


@program("redis", "redis-server redis-tools", "redis-server redis-benchmark", RATE, clients=20,
         requests=100000, quick={"requests": 20000})
def redis(launch, clients, requests):
    """redis under redis-benchmark: strings, lists, sets, hashes, sorted sets"""
    path = launch.folder / "redis.sock"
    tests = "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100"
    with launch.server(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
                        launch.folder, "--appendonly", "no"], lambda: listens(path)):
        answer = launch.client(["redis-benchmark", "-s", path, "--csv", "-t", tests, "-n", requests,
                                "-r", "100000", "-d", "200", "-P", "16", "-c", clients])
    rates = rate_in(answer, r'(?m)^"[^"]+","([0-9.]+)"', "redis-benchmark")
    return {"requests_per_second": len(rates) / sum(1 / rate for rate in rates)}


POSTGRES = "/usr/lib/postgresql/*/bin"


@program("postgresql", "postgresql postgresql-contrib", f"{POSTGRES}/postgres {POSTGRES}/pgbench",
         RATE, clients=4, transactions=8000, quick={"transactions": 2000})
def postgresql(launch, clients, transactions):
    """postgresql under pgbench's point selects, by number of clients"""
    programs = Path(find(POSTGRES))
    data, socket = launch.folder / "data", launch.folder / ".s.PGSQL.5432"
    launch.client([programs / "initdb", "-D", data, "-A", "trust", "-N", "--locale=C"],
                  user="postgres")
    here = ["-h", launch.folder, "-U", "postgres"]
    with launch.server([programs / "postgres", "-D", data, "-k", launch.folder, "-c",
                        "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off"],
                       lambda: listens(socket), user="postgres", stop=signal.SIGINT):
        launch.client(["sh", "-c", 'until "$0" -q "$@"; do sleep 0.1; done',
                       programs / "pg_isready", *here])
        launch.client([programs / "pgbench", *here, "-i", "-q", "-s", "2", "postgres"])
        answer = launch.client([programs / "pgbench", *here, "-S", "-c", clients, "-t",
                                transactions // clients,
                                "--random-seed=11", "-M", "simple", "postgres"])
    return {"requests_per_second": rate_in(answer, r"tps = ([0-9.]+)", "pgbench")[0]}


def mariadb_data(launch):
    """An empty database, made once and copied."""
    template = cache() / "inputs" / "mariadb"
    if not template.is_dir():
        fresh = launch.folder / "template"
        fresh.mkdir()
        launch.client(["mariadb-install-db", "--no-defaults", f"--datadir={fresh}",
                       "--skip-test-db", "--auth-root-authentication-method=normal"])
        template.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(fresh, template, dirs_exist_ok=True)
    data = Path(shutil.copytree(template, launch.folder / "data"))
    for path in (data, *data.rglob("*")):
        if os.getuid() == 0:
            shutil.chown(path, "mysql")
    return data


@program("mariadb", "mariadb-server mariadb-client sysbench", "mariadbd mariadb sysbench", RATE,
         clients=4, queries=40000, quick={"queries": 10000})
def mariadb(launch, clients, queries):
    """mariadb under sysbench's point selects, by number of clients"""
    data, path = mariadb_data(launch), launch.folder / "m.sock"
    with launch.server(["/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}",
                        f"--tmpdir={launch.folder}", f"--socket={path}", "--skip-networking",
                        "--skip-log-bin", f"--pid-file={data}/pid",
                        "--innodb-buffer-pool-size=64M"], lambda: listens(path), user="mysql"):
        launch.client(["mariadb", "--no-defaults", f"--socket={path}", "-u", "root", "-e",
                       "create database sbtest"])
        bench = ["sysbench", "oltp_point_select", f"--mysql-socket={path}", "--mysql-user=root",
                 "--tables=4", "--table-size=5000", "--rand-seed=7"]
        launch.client([*bench, "prepare"])
        answer = launch.client([*bench, f"--threads={clients}", f"--events={queries}", "--time=0",
                                "run"])
    return {"requests_per_second": rate_in(answer, r"queries:\s+\d+\s+\(([0-9.]+) per sec",
                                           "sysbench")[0]}
