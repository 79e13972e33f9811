# SPDX-License-Identifier: Apache-2.0
"""The machine under test: which driver it has, which warm, which Pythons; and a daemon of our own.

    driver   gpu: a real one that knows of a device; else the stand-in of tests/fakecuda, if a C compiler can
             build it; else none
    warm     the wheel that WHEEL names, unpacked; else a build tree
    Pythons  this one, and those that PYTHONS names: a step takes the first that has its library
"""

import ctypes.util
import glob
import json
import os
import re
import shutil
import site
import subprocess
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAIT_S = 20.0
PROBE = """if True:
    import ctypes
    cuda, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0 and n.value > 0
    a, b, v, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(99)
    cuda.cuDeviceGetAttribute(ctypes.byref(a), 75, 0)
    cuda.cuDeviceGetAttribute(ctypes.byref(b), 76, 0)
    cuda.cuDriverGetVersion(ctypes.byref(v))
    cuda.cuDeviceGetName(name, 99, 0)
    print(f"sm_{a.value}{b.value}", v.value, name.value.decode())
"""


def output_of(*command, **options):
    """Returns what a command prints, or "" if it fails or is not there."""
    try:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30,
                             **options)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


class Machine:
    """What was found. `library_path` has the stand-in if that is in use, else it is ""."""

    def __init__(self, work):
        self.kind, self.arch, self.cuda, self.library_path, self.device = "none", "sm_90", 13000, "", "no GPU"
        found = output_of(sys.executable, "-c", PROBE)
        if found:
            self.kind = "gpu"
        elif self._build_stand_in(work):
            self.library_path = work
            found = output_of(sys.executable, "-c", PROBE, env={**os.environ, "LD_LIBRARY_PATH": work})
            self.kind = "stand-in" if found else "none"
        if found:
            self.arch, cuda, self.device = found.split(" ", 2)
            self.cuda = int(cuda)

    def _build_stand_in(self, work):
        compiler = shutil.which("cc") or shutil.which("gcc")
        return bool(compiler) and subprocess.run(
            [compiler, "-I", ROOT, "-D_GNU_SOURCE", "-std=c11", "-w", "-shared", "-fPIC",
             "-Wl,-Bsymbolic,-soname,libcuda.so.1", "-o", os.path.join(work, "libcuda.so.1"),
             os.path.join(ROOT, "tests/fakecuda/libcuda.c"), "-ldl"], stderr=subprocess.DEVNULL).returncode == 0

    def release(self):
        return output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]


class Installed:
    """The warm under test, below `prefix`."""

    def __init__(self, build, work):
        wheel = os.environ.get("WHEEL", "")
        self.from_wheel = bool(wheel)
        self.prefix = os.path.join(work, "warm") if wheel else build
        if wheel:
            self._unpack(wheel)
        if not os.access(self.program("warm"), os.X_OK):
            raise SystemExit(f"test-gpu: no warm in {self.prefix}. Build it by `make`, or give the wheel that "
                             "`make wheel` made on another machine: make test-gpu WHEEL=FILE.whl")

    def _unpack(self, wheel):
        """Puts a wheel's files where pip would, in a folder of its own."""
        if not zipfile.is_zipfile(wheel):
            raise SystemExit(f"test-gpu: WHEEL={wheel} is no wheel")
        with zipfile.ZipFile(wheel) as z:
            for entry in z.infolist():
                below = re.sub(r"^[^/]*\.data/(scripts/|data/)",
                               lambda m: "bin/" if m[1] == "scripts/" else "", entry.filename)
                if below == entry.filename:
                    continue  # site-packages: share/warm/python has the same
                path = os.path.join(self.prefix, below)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(z.read(entry))
                os.chmod(path, entry.external_attr >> 16 & 0o777 or 0o644)

    def program(self, name):
        return os.path.join(self.prefix, "bin", name)

    @property
    def runner(self):
        return os.path.join(self.prefix, "libexec", "warm", "warm-exec")


def pythons():
    """Returns the interpreters that a step may take."""
    clients = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "warm-venv/*/bin/python")
    more = [p for pattern in os.environ.get("PYTHONS", clients).split(":") if pattern for p in sorted(glob.glob(pattern))]
    return [sys.executable, *(p for p in more if os.access(p, os.X_OK))]


_has = {}


def has(python, module):
    if (python, module) not in _has:
        code = f"import importlib.util as u; print(u.find_spec({module.split('.')[0]!r}) and u.find_spec({module!r}))"
        _has[python, module] = output_of(python, "-c", code) not in ("", "None")
    return _has[python, module]


def python_with(module, better=""):
    """Returns the first interpreter that has a module, and that has `better`, too, if there is one; or None."""
    those = [p for p in pythons() if not module or has(p, module)]
    return next((p for p in those if better and has(p, better)), those[0] if those else None)


def nvrtc_folders(cuda):
    """Returns the folders that hold an NVRTC: first the newest whose PTX this driver reads."""
    patterns = [f"{ROOT}/build/toolchain/*/lib", "/usr/local/cuda*/lib64",
                "/usr/local/cuda*/targets/*/lib", os.environ.get("TOOLCHAIN", "/nowhere") + "/*/lib"]
    for python in pythons():
        for folder in output_of(python, "-c", "import site; print(*site.getsitepackages(), sep='\\n')").split("\n"):
            patterns += [f"{folder}/nvidia/*/lib"]
    found = {}
    for folder in (f for p in patterns for f in glob.glob(p)):
        for library in glob.glob(f"{folder}/libnvrtc.so.*"):
            real = os.path.realpath(library)
            builtins = " ".join(os.listdir(os.path.dirname(real)))
            version = re.search(r"libnvrtc-builtins\.so\.(\d+)\.(\d+)", builtins)
            if version:
                found.setdefault((int(version[1]), int(version[2])), os.path.dirname(real))
    limit = (cuda // 1000, cuda % 1000 // 10)
    readable = sorted((v for v in found if v <= limit), reverse=True)
    return [found[v] for v in readable + sorted(v for v in found if v > limit)]


class Warmd:
    """A daemon on a store of its own."""

    def __init__(self, installed, work, nvrtc):
        self.installed, self.socket = installed, os.path.join(work, "warmd.sock")
        options = [word for folder in nvrtc for word in ("--nvrtc", folder)]
        self.log = open(os.path.join(work, "warmd.log"), "wb")
        self.process = subprocess.Popen(
            [installed.program("warmd"), "--socket", self.socket, "--store", os.path.join(work, "store"), *options],
            stdin=subprocess.DEVNULL, stderr=self.log, env=environment())
        deadline = time.monotonic() + WAIT_S
        while not self.warm("stats", "--json") and time.monotonic() < deadline and self.process.poll() is None:
            time.sleep(0.05)

    def warm(self, *arguments, timeout=30):
        """Returns what the command prints on stdout; "" if it fails."""
        try:
            return subprocess.run([self.installed.program("warm"), *arguments], capture_output=True, text=True,
                                  env=environment(WARM_SOCKET=self.socket), timeout=timeout).stdout
        except subprocess.TimeoutExpired:
            return ""

    def stats(self):
        said = self.warm("stats", "--json")
        return json.loads(said) if said else {}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def environment(machine=None, home=None, **settings):
    """Returns this process's environment without warm's variables; with fresh caches if `home` is given."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("WARM_") and k not in ("LD_PRELOAD", "PYTHONPATH", "WHEEL")}
    if home:
        for folder in (home, f"{home}/tmp"):
            os.makedirs(folder, exist_ok=True)
        for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH",
                     "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
            env.pop(name, None)
        env.update(HOME=home, TMPDIR=f"{home}/tmp", PYTHONUSERBASE=site.getuserbase(),
                   XDG_CACHE_HOME=f"{home}/.cache")
    if machine:
        env["GPU_KIND"] = machine.kind
        if machine.kind != "gpu":
            env["WARM_TIMEOUT_MS"] = "5000"  # such machines are small and busy
        if machine.library_path:
            env["LD_LIBRARY_PATH"] = machine.library_path
    env.update({k: str(v) for k, v in settings.items()})
    return env
