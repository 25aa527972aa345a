#!/usr/bin/python3
"""Keeps the numbers of a benchmark run, and writes the tables of docs/performance.md.

  report.py core CORE.json BASELINE.json   keeps the numbers of core in results/core-TARGET.json
  report.py baselines CORE.json            prints the names of the baselines of these rows
  report.py tables                         prints the tables of the kept numbers
  report.py doc                            replaces the tables of the page
  report.py check                          fails if these tables differ from the kept numbers
"""
import json
import pathlib
import platform
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "performance.md"
# Least ratio of core to its baseline, of rows that have one.
BARS = {"Quadratic/float32/n=10000/m=10/threads=1": 9,
        "Quadratic/float32/n=10000/m=100/threads=1": 12,
        "Quadratic/float32/n=2000/m=1000/threads=1": 14,
        "Quadratic/float64/n=10000/m=10/threads=1": 4,
        "Quadratic/float64/n=10000/m=100/threads=1": 6,
        "Quadratic/float64/n=2000/m=1000/threads=1": 7,
        "TopLabel/n=10000": 100, "Median/n=10000/m=10/threads=1": 1,
        "Median/n=10000/m=100/threads=1": 1, "DistributionMmd/n=10000/threads=1": 5}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def best_seconds(core):
    """Best repetition of each row; its name without what only the harness needs."""
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    rows = {}
    for row in core["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        name = row["run_name"].replace("/real_time", "").replace(":", "=")
        seconds = row["real_time"] * unit[row["time_unit"]]
        if name not in rows or seconds < rows[name]["seconds"]:
            rows[name] = {"seconds": seconds, "flops": row.get("flop/s"),
                          "memory": row.get("memory"), "items": row.get("items_per_second")}
    return rows


def numpy_baseline(name):
    """The name of a row's baseline in baseline.py, or None."""
    match = re.match(r"Quadratic/float\d+/(n=\d+/m=\d+)/threads=\d+", name)
    loss = re.match(r"ClassLoss/(n=\d+/m=\d+)/threads=1", name)
    if loss:
        return f"class_loss/{loss[1]}"
    others = {"TopLabel/n=10000": "top_label/n=10000",
              "KernelRidgeFit/n=8000/m=10": "kernel_ridge/n=8000/m=10",
              "Simulation/n=10000/threads=1": "simulation/n=10000",
              "DistributionMmd/n=10000/threads=1": "distribution_mmd/n=10000"}
    return match[1] if match else others.get(name)


def baseline_of(name, result):
    """The name of a row's baseline and its seconds, or None."""
    key = numpy_baseline(name)
    if key in result["baseline_seconds"]:
        return "numpy/scipy, 1 thread", result["baseline_seconds"][key]
    if name.startswith("Median/"):
        base = result["rows"].get(f"Quadratic/float64/{name.removeprefix('Median/')}")
        if base:
            return "one float64 pass", base["seconds"]
    return None


def keep_core(core_file, baseline_file):
    core = json.loads(pathlib.Path(core_file).read_text())
    target = core["context"]["simd_target"]
    result = {"cpu": cpu_name(), "simd_target": target, "date": core["context"]["date"],
              "baseline_seconds": json.loads(pathlib.Path(baseline_file).read_text()),
              "rows": best_seconds(core)}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"core-{target}.json").write_text(json.dumps(result, indent=1) + "\n")


def table(head, rows):
    lines = [f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def rate(value):
    for limit, divisor, unit in ((1e5, 1e6, "million"), (1e4, 1e3, "thousand")):
        if value >= limit:
            return f"{value / divisor:.3g} {unit}/s"
    return f"{value:.0f}/s"


def seconds(value):
    for limit, factor, unit in ((1, 1, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs")):
        if value >= limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def measured_on(result, cores=""):
    return f"\n\nMeasured on {result['date'][:10]} on {cores}{result['cpu']}."


def core_table(result):
    rows = []
    for name, row in result["rows"].items():
        if row["items"] if "items" in row else re.match("Running|Reliab|Evidence|Sgemm", name):
            continue
        base = baseline_of(name, result)
        rows.append([f"`{name}`", seconds(row["seconds"])] +
                    ([base[0], seconds(base[1]), f"{base[1] / row['seconds']:.1f}",
                      BARS.get(name, "")] if base else [""] * 4))
    text = table(["row", "calibd", "baseline", "baseline takes", "times faster", "at least"], rows)
    shares = [f"{shape}: {mix['seconds'] / tiles['seconds']:.0%}"
              for shape in ("n=10000/m=10", "n=10000/m=100", "n=2000/m=1000")
              if (mix := result["rows"].get(f"TileMix/{shape}"))
              and (tiles := result["rows"].get(f"Quadratic/float64/{shape}/threads=1"))]
    if shares:
        text += ("\n\n`TileMix` executes only the instructions that the pairs need, which is the peak of "
                 f"float64 on this CPU. Shares of it: {', '.join(shares)}.")
    peak, bootstrap = (result["rows"].get(name) for name in ("SgemmPeak", "Bootstrap/threads=1"))
    if peak and bootstrap:
        text += (f"\n\nThe bootstrap runs at {bootstrap['flops'] / peak['flops']:.0%} of the speed of "
                 f"OpenBLAS's matrix product (at least 65 %), in {bootstrap['memory'] / 2**20:.0f} MiB.")
    running = [[f"`{name}`", seconds(1 / row["items"])]
               for name, row in result["rows"].items() if row.get("items")]
    if running:
        text += "\n\n" + table(["row", "time per prediction"], running)
    return text + measured_on(result, f"one core ({result['simd_target']}) of an ")


def default_table(rows):
    shown = {name: row for name, row in rows.items() if row.get("baseline") == "gRPC alone"}
    # Older results do not have it.
    durable = all("median_durable_ratio" in row for row in shown.values())
    lines = []
    for name, row in shown.items():
        lines.append([f"`{name}`", rate(row["median_per_second"]),
                      rate(row["median_baseline_per_second"]), f"{row['median_ratio']:.2f}",
                      *([rate(row["median_durable_per_second"]),
                         f"{row['median_durable_ratio']:.2f}"] if durable else []),
                      f"{row['payload_bytes_per_prediction']} B",
                      f"{row['written_bytes_per_prediction']} B"])
    return table(["row", "calibd", "gRPC alone", "ratio",
                  *(["gRPC and a file", "ratio"] if durable else []), "payload of a prediction",
                  "written to files"], lines)


def quiet_table(rows):
    lines = []
    for name in (name for name in rows if "quiet-model" in name):
        for server, row in rows[name].items():
            times = [f"{row[key]:.1f} ms" if key in row else "" for key in ("p50_ms", "p99_ms")]
            lines.append([f"`{name}`", server, *times, row["refused"], row["calls"]])
    return table(["row", "server", "p50", "p99", "refused calls", "of calls"], lines)


def other_table(rows, baseline, title, result):
    lines = [[f"`{name}`", rate(row["median_per_second"]), rate(row["median_baseline_per_second"]),
              f"{row['median_ratio']:.3g}"]
             for name, row in rows.items() if row.get("baseline") == baseline]
    return table(["row", "calibd", title, result], lines)


def tables():
    """The text of each table by its name."""
    ingest = json.loads((RESULTS / "ingest.json").read_text())
    rows = ingest["rows"]
    # The newest one, if there are results of several instruction sets.
    core = max((json.loads(path.read_text()) for path in RESULTS.glob("core-*.json")),
               key=lambda result: result["date"])
    return {"default": default_table(rows) + measured_on(ingest, f"{ingest['cores']} cores of an "),
            "quiet": quiet_table(rows),
            "changes": other_table(rows, "the default", "the default", "times the default"),
            "commits": other_table(rows, "write and fdatasync", "write and fdatasync", "ratio"),
            "core": core_table(core)}


def page_with_tables():
    """The text of the page with the tables of the kept numbers."""
    texts = tables()
    return re.sub(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)",
                  lambda match: f"{match[1]}{texts[match[2]]}\n{match[3]}", PAGE.read_text(),
                  flags=re.DOTALL)


def main():
    match sys.argv[1:]:
        case ["core", core_file, baseline_file]:
            keep_core(core_file, baseline_file)
        case ["baselines", core_file]:
            rows = best_seconds(json.loads(pathlib.Path(core_file).read_text()))
            print(*sorted({key for name in rows if (key := numpy_baseline(name))}))
        case ["tables"]:
            print("\n\n".join(tables().values()))
        case ["doc"]:
            PAGE.write_text(page_with_tables())
        case ["check"]:
            if page_with_tables() != PAGE.read_text():
                sys.exit(f"{PAGE.name} differs from the results; run tests/benchmark/report.py doc")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
