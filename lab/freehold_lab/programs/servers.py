"""servers.py - servers on loopback or a socket, under a load that ends by itself

Measured are a fixed load's requests a second, and the server's time and memory. Compared is what
the server answers. The clients have libc's malloc always. Servers that refuse to be root run as the
users that their packages made.
"""

import os
import re
import shutil
import signal
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from freehold_lab.places import Failed, cache
from freehold_lab.programs.program import compare, digest, find, listens, program
from freehold_lab.workloads import Figure

RATE = Figure("requests_per_second", "1/s", lower_is_better=False)


def rate_in(text, pattern, what):
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    found = re.findall(pattern, text)
    if not found:
        raise Failed(f"{what} gives no rate: {text.strip()[-200:]!r}")
    return [float(rate) for rate in found]


class Wire:
    """A socket read line by line."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rwb")

    def send(self, data):
        self.file.write(data)
        self.file.flush()

    def line(self):
        line = self.file.readline()
        if not line:
            raise Failed("the server closed the connection")
        return line.rstrip(b"\r\n")


# ---- redis ---------------------------------------------------------------------------------------


@contextmanager
def redis_server(launch):
    """The path of its socket."""
    path = launch.folder / "redis.sock"
    with launch.server("redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
                       launch.folder, "--appendonly", "no", "--enable-debug-command", "local",
                       is_ready=lambda: listens(path)):
        yield path


@program("redis", "redis-server redis-tools", "redis-server redis-benchmark", RATE, clients=20,
         requests=100000, quick={"requests": 20000})
def redis(launch, clients, requests):
    """redis under redis-benchmark: strings, lists, sets, hashes, sorted sets"""
    tests = "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100"
    with redis_server(launch) as path:
        start = time.monotonic()
        answer = launch.client("redis-benchmark", "-s", path, "--csv", "-t", tests, "-n", requests,
                               "-r", "100000", "-d", "200", "-P", "16", "-c", clients)
        seconds = time.monotonic() - start
    rates = rate_in(answer, r'(?m)^"[^"]+","([0-9.]+)"', "redis-benchmark")
    return {"requests_per_second": len(rates) / sum(1 / rate for rate in rates),
            "seconds": seconds}


def redis_request(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                              for word in words)


def redis_reply(wire):
    line = wire.line()
    kind, rest = line[:1], line[1:]
    if kind == b"$":
        return None if rest == b"-1" else wire.file.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [redis_reply(wire) for _ in range(int(rest))]
    if kind == b"-":
        raise Failed(f"redis answers {rest.decode()}")
    return rest


def redis_all(wire, requests):
    """Pipelined in hundreds."""
    replies = []
    for start in range(0, len(requests), 100):
        part = requests[start:start + 100]
        wire.send(b"".join(redis_request(*request) for request in part))
        replies += [redis_reply(wire) for _ in part]
    return replies


@compare("redis", "redis-server redis-tools", "redis-server")
def redis_answers(launch):
    with redis_server(launch) as path:
        load = launch.client("redis-benchmark", "-s", path, "-q", "-n", "60000", "-r", "50000",
                             "-P", "16", "-d", "150", "-t",
                             "set,get,lpush,rpop,sadd,hset,zadd,lrange_300")
        if b"rror" in load:
            raise Failed("redis-benchmark reports an error")
        wire = Wire(path)
        redis_all(wire, [["FLUSHALL"]])
        fixed = [["SET", f"s{i}", "v" * (i % 700)] for i in range(20000)]
        fixed += [["APPEND", f"s{i % 500}", f"+{i}"] for i in range(10000)]
        fixed += [["HSET", f"h{i % 200}", f"f{i}", i * i] for i in range(10000)]
        fixed += [["ZADD", f"z{i % 50}", i * 7 % 1000, f"m{i}"] for i in range(10000)]
        fixed += [["RPUSH", f"l{i % 20}", "x" * (i % 90)] for i in range(10000)]
        fixed += [["DEL", f"s{i}"] for i in range(0, 20000, 3)]
        changes = redis_all(wire, fixed)
        reads = redis_all(wire,
                          [["GET", f"s{i}"] for i in range(20000)]
                          + [["ZRANGE", "z7", 0, -1, "WITHSCORES"]]
                          + [["HGETALL", "h3"], ["LRANGE", "l5", 0, -1], ["DBSIZE"],
                             ["DEBUG", "DIGEST"]])
        redis_all(wire, [["SAVE"]])  # written by the same process
        forked = redis_all(wire, [["BGSAVE"]])  # and by a child of its
        return [digest(repr(changes).encode()), digest(repr(reads[:-2]).encode()), reads[-2],
                reads[-1], forked[0]]


# ---- memcached, nginx ----------------------------------------------------------------------------


def memcached_talk(path, worker, results):
    """One connection: sets, reads back, deletes; values of many sizes, so that slab
    classes fill and evict nothing."""
    wire, seen = Wire(path), []
    for i in range(4000):
        value = (f"{worker}:{i};" * (1 + i % 150)).encode()
        wire.send(b"set k%d-%d 0 0 %d\r\n%s\r\n" % (worker, i, len(value), value))
        seen.append(wire.line())
        wire.send(b"get k%d-%d\r\n" % (worker, i // 2))
        while (line := wire.line()) != b"END":
            seen.append(line)
        if i % 5 == 0:
            wire.send(b"delete k%d-%d\r\n" % (worker, i))
            seen.append(wire.line())
    results[worker] = digest(b"\n".join(seen))


@compare("memcached", "memcached", "memcached")
def memcached(launch):
    path, results = launch.folder / "memcached.sock", {}
    with launch.server("memcached", "-s", path, "-a", "0666", "-m", "128", "-t", "4", user="nobody",
                    is_ready=lambda: path.exists() and listens(path)):
        workers = [threading.Thread(target=memcached_talk, args=(path, n, results))
                   for n in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        wire = Wire(path)
        wire.send(b"stats\r\n")
        counts = []
        while (line := wire.line()) != b"END":
            if line.split()[1] in (b"curr_items", b"total_items", b"cmd_get", b"get_hits",
                                   b"evictions"):
                counts.append(line.decode())
    if len(results) != 6:
        raise Failed(f"{6 - len(results)} of 6 connections broke off")
    return [results[n] for n in sorted(results)] + counts


NGINX = """
daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access.log; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
  fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  types {{ text/html html; text/plain txt; }}
  gzip on; gzip_min_length 100; gzip_types text/plain; gzip_comp_level 6;
  server {{
    listen 127.0.0.1:{port}; root {folder}/www;
    location /again/ {{ proxy_pass http://127.0.0.1:{port}/; }}
  }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@compare("nginx", "nginx-light wrk", "nginx")
def nginx(launch):
    port, www = free_port(), launch.folder / "www"
    www.mkdir()
    for n in range(40):
        (www / f"page{n}.txt").write_text(f"line {n} of a page\n" * (1 + n * n * 3))
    (launch.folder / "nginx.conf").write_text(NGINX.format(folder=launch.folder, port=port))
    base = f"http://127.0.0.1:{port}"
    with launch.server("/usr/sbin/nginx", "-c", launch.folder / "nginx.conf", "-p", launch.folder,
                       "-e", launch.folder / "error.log", user="nobody", stop=signal.SIGQUIT,
                       is_ready=lambda: listens(("127.0.0.1", port))):
        for page in ("page3.txt", "again/page20.txt"):
            load = launch.client("wrk", "-t", "2", "-c", "32", "-d", "2", "-H",
                              "Accept-Encoding: gzip", f"{base}/{page}").decode()
            if "Socket errors" in load or "Non-2xx" in load or "Requests/sec" not in load:
                raise Failed(f"wrk: {load.strip().splitlines()[-1]}")
        seen = []
        for n in range(40):
            for where in ("", "/again"):
                for coding in ("identity", "gzip"):
                    request = urllib.request.Request(f"{base}{where}/page{n}.txt",
                                                     headers={"Accept-Encoding": coding})
                    with urllib.request.urlopen(request, timeout=30) as reply:
                        seen.append(f"{reply.status} {where}{n} {coding} {digest(reply.read())}")
    errors = (launch.folder / "error.log").read_text()
    if "[alert]" in errors or "[crit]" in errors:
        raise Failed(f"nginx: {errors.splitlines()[0]}")
    return seen


# ---- postgresql ----------------------------------------------------------------------------------

POSTGRES = "/usr/lib/postgresql/*/bin"
POSTGRES_QUERIES = """
select count(*), sum(abalance), min(abalance), max(abalance) from pgbench_accounts;
select bid, count(*), sum(abalance) from pgbench_accounts group by bid order by bid;
select md5(string_agg(aid || ':' || abalance, ',' order by aid)) from pgbench_accounts;
select count(*), sum(delta) from pgbench_history;
create table words as
  select md5(i::text) as word, i % 977 as class, i as n from generate_series(1, 60000) i;
create index on words (word);
select class, count(*), max(word), sum(n) over (order by class)
  from (select class, word, n from words) w group by class, n having n < 40
  order by class, n limit 60;
select jsonb_object_agg(class, total order by class)
  from (select class, sum(n) total from words group by class) s;
select count(*) from words a join words b on a.class = b.class and a.word < b.word and a.n < 3000;
select string_agg(upper(regexp_replace(word, '[0-9]+', '-', 'g')), ' ' order by n)
  from words where n < 200;
"""


@contextmanager
def postgres_server(launch, prepare):
    """The folder of its programs, and how clients reach it; `prepare` runs what makes the
    database."""
    programs, data = Path(find(POSTGRES) or "no " + POSTGRES), launch.folder / "data"
    here = ["-h", launch.folder, "-U", "postgres"]
    prepare(programs / "initdb", "-D", data, "-A", "trust", "-N", "--locale=C", user="postgres")
    with launch.server(programs / "postgres", "-D", data, "-k", launch.folder, "-c",
                       "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off",
                       is_ready=lambda: listens(launch.folder / ".s.PGSQL.5432"),
                       user="postgres", stop=signal.SIGINT):
        # It listens before it is ready.
        launch.client("sh", "-c",
                      'for i in $(seq 100); do "$0" -q "$@" && exit; sleep 0.1; done; exit 1',
                      programs / "pg_isready", *here)
        launch.client(programs / "pgbench", *here, "-i", "-q", "-s", "2", "postgres")
        yield programs, here


@program("postgresql", "postgresql postgresql-contrib", f"{POSTGRES}/postgres {POSTGRES}/pgbench",
         RATE, clients=4, transactions=8000, quick={"transactions": 2000})
def postgresql(launch, clients, transactions):
    """postgresql under pgbench's point selects, by number of clients"""
    with postgres_server(launch, launch.client) as (programs, here):
        answer = launch.client(programs / "pgbench", *here, "-S", "-c", clients, "-t",
                               transactions // clients, "--random-seed=11", "-M", "simple",
                               "postgres")
    return {"requests_per_second": rate_in(answer, r"tps = ([0-9.]+)", "pgbench")[0]}


@compare("postgresql", "postgresql postgresql-contrib", "postgres")
def postgresql_answers(launch):
    with postgres_server(launch, launch.program) as (programs, here):
        load = launch.client(programs / "pgbench", *here, "-c", "6", "-j", "2", "-t", "250",
                             "--random-seed=11", "-M", "prepared", "postgres").decode()
        if "number of transactions actually processed: 1500/1500" not in load:
            raise Failed("pgbench did not process its 1500 transactions")
        return launch.client(programs / "psql", *here, "-At", "-v", "ON_ERROR_STOP=1", "postgres",
                             give=POSTGRES_QUERIES)


# ---- mariadb -------------------------------------------------------------------------------------


def mariadb_data(launch):
    """An empty database, made once and copied."""
    template = cache() / "inputs" / "mariadb"
    if not template.is_dir():
        fresh = launch.folder / "template"
        fresh.mkdir()
        launch.client("mariadb-install-db", "--no-defaults", f"--datadir={fresh}",
                      "--skip-test-db", "--auth-root-authentication-method=normal")
        template.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(fresh, template, dirs_exist_ok=True)
    data = Path(shutil.copytree(template, launch.folder / "data"))
    for path in (data, *data.rglob("*")):
        if os.getuid() == 0:
            shutil.chown(path, "mysql")
    return data


@contextmanager
def mariadb_server(launch):
    """The path of its socket, and a client as a command."""
    data, path = mariadb_data(launch), launch.folder / "m.sock"
    with launch.server("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}",
                       f"--tmpdir={launch.folder}", f"--socket={path}", "--skip-networking",
                       "--skip-log-bin", f"--pid-file={data}/pid",
                       "--innodb-buffer-pool-size=64M", is_ready=lambda: listens(path),
                       user="mysql"):
        client = ["mariadb", "--no-defaults", f"--socket={path}", "-u", "root", "-N", "-B"]
        launch.client(*client, "-e", "create database sbtest")
        yield path, client


@program("mariadb", "mariadb-server mariadb-client sysbench", "mariadbd mariadb sysbench", RATE,
         clients=4, queries=40000, quick={"queries": 10000})
def mariadb(launch, clients, queries):
    """mariadb under sysbench's point selects, by number of clients"""
    with mariadb_server(launch) as (path, _):
        bench = ["sysbench", "oltp_point_select", f"--mysql-socket={path}", "--mysql-user=root",
                 "--tables=4", "--table-size=5000", "--rand-seed=7"]
        launch.client(*bench, "prepare")
        answer = launch.client(*bench, f"--threads={clients}", f"--events={queries}", "--time=0",
                               "run")
    return {"requests_per_second": rate_in(answer, r"queries:\s+\d+\s+\(([0-9.]+) per sec",
                                           "sysbench")[0]}


MARIADB_QUERIES = """
create table fixed (id int primary key, k int, c char(128), key (k));
insert into fixed select seq, crc32(seq) % 3000, sha2(seq, 512) from seq_1_to_30000;
update fixed set k = k + 1, c = reverse(c) where id % 3 = 0; delete from fixed where k % 7 = 0;
checksum table fixed;
select k % 100, count(*), group_concat(left(c, 5) order by id) from fixed group by 1
  order by 2 desc, 1 limit 20
"""


@compare("mariadb", "mariadb-server mariadb-client sysbench", "mariadbd")
def mariadb_answers(launch):
    with mariadb_server(launch) as (path, client):
        # sysbench's threads share one source of random numbers, so what it leaves
        # differs from run to run.
        fixed = launch.client(*client, "-e", MARIADB_QUERIES, "sbtest")
        bench = ["sysbench", "oltp_read_write", f"--mysql-socket={path}", "--mysql-user=root",
                 "--tables=4", "--table-size=3000"]
        launch.client(*bench, "prepare")
        tables = "sbtest1, sbtest2, sbtest3, sbtest4"
        loaded = launch.client(*bench, "--threads=8", "--events=1200", "--time=60", "run").decode()
        if "total number of events:" not in loaded or "FATAL" in loaded:
            raise Failed("sysbench with 8 threads did not end well")
        checked = launch.client(*client, "-e", f"check table {tables}", "sbtest")
        return [fixed, checked]
