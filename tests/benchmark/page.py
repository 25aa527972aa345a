#!/usr/bin/python3
"""Measures what the page at / costs with 1000 models: how soon a browser shows the list, and what 50 of
them that stay open take from ingestion.

    tests/benchmark/page.py build/test/bin/calibd build/test/page_npm [MODELS]

It needs the packages of the section [npm] of deploy/packages. Other work on the machine changes all times. So the
list is compared with the page of a server without models in turns, and the cost of dashboards is counted as CPU
time of the server, beside that of the rows that it takes in meanwhile.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import statistics
import sys
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from json_server import JsonServer  # noqa: E402
from npm_tools import npm_tools  # noqa: E402

CALIBD, NPM_FOLDER = sys.argv[1:3]
MODELS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
ROWS = 300
RUNS = 9
DASHBOARDS = 50
SECONDS = 60
BATCH = 2048
# As page/src/live.ts has it: a list is read again after 10 s, or after 1000 times what a read takes, but within 60 s.
LIST_SECONDS = 10
LIST_REST = 1000
MOST_LIST_SECONDS = 60


def batch(rows, seed):
    generator = np.random.default_rng(seed)
    first = generator.random(rows).round(6)
    return {"observations": {"probabilities": {"values": np.stack([first, 1 - first], axis=1).ravel().tolist()},
                             "labels": (generator.random(rows) > first).astype(int).tolist()}}


def fill(server):
    """Declares all models but one, and sends rows to each."""
    def one(number):
        server.create(f"model-{number:04}")
        status, _, text = server.post(f"/v1/models/model-{number:04}:observe", batch(ROWS, number))
        assert status == 200, text
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(MODELS - 1)))


def first_row_ms(browser, address, ready):
    """Milliseconds from the beginning of the navigation until the page that has `ready` is drawn."""
    return browser.run(
        f"await page.goto('about:blank'); await page.goto('{address}/#/', {{waitUntil: 'commit'}}); "
        "return await page.evaluate((ready) => new Promise((done) => { const look = () => "
        "document.querySelector(ready) ? requestAnimationFrame(() => setTimeout(() => done(performance.now()))) "
        f": requestAnimationFrame(look); look(); }}), '{ready}');")


def cpu_seconds(pid):
    """CPU time of a process and of those that it started, until now."""
    processes = {}
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rsplit(")", 1)[1].split()
            processes[int(file.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    family = {pid}
    for _ in processes:
        grown = family | {one for one, (parent, _) in processes.items() if parent in family}
        if grown == family:
            break
        family = grown
    return sum(processes[one][1] for one in family if one in processes) / os.sysconf("SC_CLK_TCK")


def dashboards(server, end):
    """Reads the list as open pages do, until `end`. Returns the number of reads."""
    def one(number):
        # They were opened at different times.
        end.wait(number * MOST_LIST_SECONDS / DASHBOARDS)
        reads = 0
        while not end.is_set():
            begin = time.monotonic()
            status, _, _ = server.ask("GET", "/v1/verdicts?pageSize=1000&pageToken=",
                                      headers={"Accept-Encoding": "gzip"})
            reads += status == 200
            end.wait(min(MOST_LIST_SECONDS, max(LIST_SECONDS, LIST_REST * (time.monotonic() - begin))))
        return reads
    with concurrent.futures.ThreadPoolExecutor(DASHBOARDS) as pool:
        return sum(pool.map(one, range(DASHBOARDS)))


def ingest(server, end):
    """Sends batches to one model, one after another, until `end`. Returns the number of rows."""
    body = batch(BATCH, 1)
    rows = 0
    while not end.is_set():
        status, _, text = server.post("/v1/models/busy:observe", body)
        # A busy machine answers the dashboards so late that they hold all connections.
        if status == 503:
            end.wait(1)
            continue
        assert status == 200, text
        rows += BATCH
    return rows


def run_for(server, works):
    """Runs works for some seconds. Returns what each returned, and the CPU seconds of the server."""
    end = threading.Event()
    begin = cpu_seconds(server.pid)
    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
        results = [pool.submit(work, server, end) for work in works]
        time.sleep(SECONDS)
        end.set()
        values = [result.result() for result in results]
    return values, cpu_seconds(server.pid) - begin


def main():
    modules = npm_tools(NPM_FOLDER, ROOT / "page")
    cpu = next(line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
               if line.startswith("model name"))
    print(f"{os.cpu_count()} cores of an {cpu}, load {os.getloadavg()[0]:.1f}", flush=True)
    with JsonServer(CALIBD) as server, JsonServer(CALIBD) as empty:
        fill(server)
        servers = {"list": (server, "table.models tbody tr"), "no models": (empty, "main p")}
        for name, (one, ready) in servers.items():
            with Browser(modules, f"http://{one.http}") as browser:
                first_row_ms(browser, f"http://{one.http}", ready)
                pids = (one.pid, os.getpid())
                before = [cpu_seconds(pid) for pid in pids]
                times = [first_row_ms(browser, f"http://{one.http}", ready) for _ in range(RUNS)]
                used = [1000 * (cpu_seconds(pid) - begin) / RUNS for pid, begin in zip(pids, before)]
            print(f"{name}: median {statistics.median(times):.0f} ms, least {min(times):.0f} ms; CPU of the server "
                  f"{used[0]:.0f} ms, of all {used[1]:.0f} ms", flush=True)
        before = cpu_seconds(server.pid)
        for _ in range(RUNS):
            begin = time.monotonic()
            _, _, text = server.ask("GET", "/v1/verdicts?pageSize=1000", headers={"Accept-Encoding": "gzip"})
        print(f"one read of the list: {len(text)} bytes, {(cpu_seconds(server.pid) - before) / RUNS * 1000:.0f} ms "
              f"of CPU, the last in {(time.monotonic() - begin) * 1000:.0f} ms", flush=True)
        server.create("busy")
        (rows,), alone = run_for(server, [ingest])
        (more, reads), both = run_for(server, [ingest, dashboards])
        (idle,), watched = run_for(server, [dashboards])
        print(f"alone: {rows / SECONDS:.0f} rows/s, {1e6 * alone / rows:.2f} µs of CPU a row; with "
              f"{DASHBOARDS} dashboards ({reads} reads): {more / SECONDS:.0f} rows/s, {1e6 * both / more:.2f} µs; "
              f"dashboards alone: {idle} reads, {watched / SECONDS:.3f} CPU", flush=True)


if __name__ == "__main__":
    main()
