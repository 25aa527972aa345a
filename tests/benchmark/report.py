#!/usr/bin/python3
"""Pairs the rows of a benchmark run with their baseline: prints a Markdown table and
keeps the numbers as JSON. Usage: report.py CORE.json BASELINE.json RESULTS_DIR"""
import json
import pathlib
import platform
import re
import sys


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
                          "memory": row.get("memory")}
    return rows


def main():
    core = json.loads(pathlib.Path(sys.argv[1]).read_text())
    baseline = json.loads(pathlib.Path(sys.argv[2]).read_text())
    rows = best_seconds(core)
    table = []
    # Least ratio of rows that have one.
    bars = {"Quadratic/float32/n=10000/m=10/threads=1": 9,
            "Quadratic/float32/n=10000/m=100/threads=1": 12,
            "Quadratic/float32/n=2000/m=1000/threads=1": 14,
            "Quadratic/float64/n=10000/m=10/threads=1": 4,
            "Quadratic/float64/n=10000/m=100/threads=1": 6,
            "Quadratic/float64/n=2000/m=1000/threads=1": 7,
            "TopLabel/n=10000": 100, "Median/n=10000/m=10/threads=1": 1,
            "Median/n=10000/m=100/threads=1": 1}
    for name, row in rows.items():
        match = re.match(r"Quadratic/(float\d+)/(n=\d+/m=\d+)/threads=(\d+)", name)
        if match:
            base = baseline[match.group(2)]
            table.append((name, row["seconds"], "numpy/scipy, 1 thread", base))
        elif name == "TopLabel/n=10000":
            table.append((name, row["seconds"], "numpy/scipy, 1 thread",
                          baseline["top_label/n=10000"]))
        elif name.startswith("Median/n=10000/"):
            base = rows["Quadratic/float64/" + name.removeprefix("Median/")]
            table.append((name, row["seconds"], "one float64 pass", base["seconds"]))
        else:
            table.append((name, row["seconds"], "", None))
    print("| benchmark | ms | baseline | baseline ms | times faster | at least |\n"
          "|---|---|---|---|---|---|")
    for name, seconds, label, base in table:
        ratio = f"{base / seconds:.1f}" if base else ""
        print(f"| {name} | {seconds * 1e3:.4g} | {label} | "
              f"{f'{base * 1e3:.4g}' if base else ''} | {ratio} | {bars.get(name, '')} |")
    for shape in ("float32/n=10000/m=100", "float64/n=10000/m=100"):
        one = rows[f"Quadratic/{shape}/threads=1"]["seconds"]
        two = rows[f"Quadratic/{shape}/threads=2"]["seconds"]
        print(f"\n{shape}: two threads are {one / two:.2f} times as fast as one (at least 1.8).")
    shares = {shape: rows[f"TileMix/{shape}"]["seconds"] /
              rows[f"Quadratic/float64/{shape}/threads=1"]["seconds"]
              for shape in ("n=10000/m=10", "n=10000/m=100", "n=2000/m=1000")}
    print("\nfloat64 tiles, share of the peak of their instructions: "
          + ", ".join(f"{shape} {share:.0%}" for shape, share in shares.items()))
    peak = rows["SgemmPeak"]["flops"]
    share = rows["Bootstrap/threads=1"]["flops"] / peak
    print(f"\nBootstrap (n=10000, 1000 replicates): {share:.0%} of OpenBLAS's sgemm "
          f"({peak / 1e9:.0f} Gflop/s) in "
          f"{rows['Bootstrap/threads=1']['memory'] / 2**20:.0f} MiB (at least 65 %, below 61 MiB).")
    folder = pathlib.Path(sys.argv[3])
    folder.mkdir(exist_ok=True)
    target = core["context"]["simd_target"]
    result = {"cpu": cpu_name(), "simd_target": target, "date": core["context"]["date"],
              "baseline_seconds": baseline, "bootstrap_share_of_sgemm_peak": share,
              "tile_share_of_instruction_peak": shares,
              "rows": rows}
    (folder / f"core-{target}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
