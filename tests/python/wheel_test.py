"""The wheel is installed offline, without a compiler, into a fresh environment."""
import os
import pathlib
import platform
import re
import subprocess
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            timeout=120, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_wheel_is_installed_and_used_without_a_network(tmp_path, server):
    (wheel,) = pathlib.Path(os.environ["CALIBD_PYTHON"]).glob("calibd-*.whl")
    version = re.search(r"project\(calibd VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert wheel.name == f"calibd-{version}-cp311-cp311-linux_{platform.machine()}.whl"
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", tmp_path)
    # Without a PATH there is no compiler.
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    python = tmp_path / "bin/python"
    run(python, "-m", "pip", "install", "--no-index", wheel, env=environment)
    output = run(python, "-c", f"""
import calibd
client = calibd.Client("{server.grpc}")
with client.stream("wheel", 2) as stream:
    stream.send([0.2, 0.9], [0, 1])
print(calibd.__file__, calibd.__version__, client.calibration("wheel").observations,
      calibd.evaluate([.2, .9], [0, 1]).status)
""", env=environment, cwd=tmp_path)
    path, told, observations, status = output.split()
    assert told == version
    assert path.startswith(str(tmp_path)) and observations == "2"
    assert status == "UNDECIDED"
    assert (pathlib.Path(path).parent / "py.typed").exists()
    with zipfile.ZipFile(wheel) as files:
        metadata = files.read(f"calibd-{version}.dist-info/METADATA").decode()
    assert re.search(r"^Requires-Python: >= ?3\.9$", metadata, re.M)
