"""servers.py - cases: servers on loopback or a socket in the case's folder, under a
load that ends by itself"""

import os
import shutil
import signal
import socket
import threading
import urllib.request
from pathlib import Path

from cases.case import answers, case, digest, free_port
from running import Failed


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


@case("redis", "redis-server redis-tools", main="redis-server")
def redis(run):
    path = run.folder / "redis.sock"
    with run.server("redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
                    run.folder,
                    "--enable-debug-command", "local",
                    is_ready=lambda: path.exists() and answers(path)):
        load = run.client("redis-benchmark", "-s", path, "-q", "-n", "60000", "-r", "50000", "-P",
                          "16", "-d", "150", "-t", "set,get,lpush,rpop,sadd,hset,zadd,lrange_300")
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


@case("memcached", "memcached", main="memcached")
def memcached(run):
    path, results = run.folder / "memcached.sock", {}
    with run.server("memcached", "-s", path, "-a", "0666", "-m", "128", "-t", "4", user="nobody",
                    is_ready=lambda: path.exists() and answers(path)):
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


@case("nginx", "nginx-light wrk", main="nginx")
def nginx(run):
    port, www = free_port(), run.folder / "www"
    www.mkdir()
    for n in range(40):
        (www / f"page{n}.txt").write_text(f"line {n} of a page\n" * (1 + n * n * 3))
    (run.folder / "nginx.conf").write_text(NGINX.format(folder=run.folder, port=port))
    base = f"http://127.0.0.1:{port}"
    with run.server("/usr/sbin/nginx", "-c", run.folder / "nginx.conf", "-p", run.folder, "-e",
                    run.folder / "error.log", user="nobody", stop=signal.SIGQUIT,
                    is_ready=lambda: answers(("127.0.0.1", port))):
        for page in ("page3.txt", "again/page20.txt"):
            load = run.client("wrk", "-t", "2", "-c", "32", "-d", "2", "-H",
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
    errors = (run.folder / "error.log").read_text()
    if "[alert]" in errors or "[crit]" in errors:
        raise Failed(f"nginx: {errors.splitlines()[0]}")
    return seen


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


@case("postgresql", "postgresql postgresql-contrib", main="postgres")
def postgresql(run):
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"),
                       key=lambda path: int(path.parent.name))
    if not installed:
        raise Failed("no /usr/lib/postgresql/*/bin")
    programs, data = installed[-1], run.folder / "data"
    as_user = {"user": "postgres"}
    run.program(programs / "initdb", "-D", data, "-A", "trust", "-N", "--locale=C", **as_user)
    here = ["-h", run.folder, "-U", "postgres"]
    with run.server(programs / "postgres", "-D", data, "-k", run.folder, "-c", "listen_addresses=",
                    "-c", "fsync=off", "-c", "autovacuum=off", stop=signal.SIGINT, **as_user,
                    is_ready=lambda: answers(run.folder / ".s.PGSQL.5432")):
        wait_for_postgres(run, programs, here)
        run.client(programs / "pgbench", *here, "-i", "-q", "-s", "2", "postgres")
        load = run.client(programs / "pgbench", *here, "-c", "6", "-j", "2", "-t", "250",
                          "--random-seed=11", "-M", "prepared", "postgres").decode()
        if "number of transactions actually processed: 1500/1500" not in load:
            raise Failed("pgbench did not process its 1500 transactions")
        return run.client(programs / "psql", *here, "-At", "-v", "ON_ERROR_STOP=1", "postgres",
                          give=POSTGRES_QUERIES)


def wait_for_postgres(run, programs, here):
    """It listens before it is ready."""
    run.client("sh", "-c", 'for i in $(seq 100); do "$0" -q "$@" && exit; sleep 0.1; done; exit 1',
               programs / "pg_isready", *here)


@case("mariadb", "mariadb-server mariadb-client sysbench", main="mariadbd")
def mariadb(run):
    data, path = run.folder / "data", run.folder / "m.sock"
    data.mkdir()
    if os.getuid() == 0:
        shutil.chown(data, "mysql")
    as_user = {"user": "mysql"}
    common = ["--no-defaults", f"--datadir={data}", f"--tmpdir={run.folder}",
              "--innodb-buffer-pool-size=64M"]
    run.client("mariadb-install-db", *common, "--auth-root-authentication-method=normal",
               "--skip-test-db", **as_user)
    with run.server("/usr/sbin/mariadbd", *common, f"--socket={path}", "--skip-networking",
                    "--skip-log-bin",
                    f"--pid-file={data}/pid", **as_user,
                    is_ready=lambda: path.exists() and answers(path)):
        client = ["mariadb", "--no-defaults", f"--socket={path}", "-u", "root", "-N", "-B"]
        run.client(*client, "-e", "create database sbtest")
        # sysbench's threads share one source of random numbers, so what it leaves
        # differs from run to run.
        fixed = run.client(*client, "-e",
                           "create table fixed (id int primary key, k int, c char(128), key (k)); "
                           "insert into fixed select seq, crc32(seq) % 3000, sha2(seq, 512) from "
                           "seq_1_to_30000; "
                           "update fixed set k = k + 1, c = reverse(c) where id % 3 = 0; delete "
                           "from fixed where k % 7 = 0; "
                           "checksum table fixed; select k % 100, count(*), group_concat(left(c, "
                           "5) order by id) "
                           "from fixed group by 1 order by 2 desc, 1 limit 20", "sbtest")
        bench = ["sysbench", "oltp_read_write", f"--mysql-socket={path}", "--mysql-user=root",
                 "--tables=4", "--table-size=3000"]
        run.client(*bench, "prepare")
        tables = "sbtest1, sbtest2, sbtest3, sbtest4"
        loaded = run.client(*bench, "--threads=8", "--events=1200", "--time=60", "run").decode()
        if "total number of events:" not in loaded or "FATAL" in loaded:
            raise Failed("sysbench with 8 threads did not end well")
        checked = run.client(*client, "-e", f"check table {tables}", "sbtest")
        return [fixed, checked]
