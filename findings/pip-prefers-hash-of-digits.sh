#!/usr/bin/env bash
# pip and uv 0.13.9 choose among builds of one version by the text behind the plus sign, not
# by age: if it is a hash, one of digits alone stands above every other, then the alphabet
# decides, and a plain 1.0 stands last. "==1.0" and "<=1.0" admit all of these, ">1.0" none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq uv==0.13.9
mkdir wheels
expected="pip: 1.0+1234, without it 1.0+fe12; uv: 1.0+1234, without it 1.0+fe12; >1.0: none"
seen=$(cat >main.py <<'PY'
import subprocess
import zipfile
from pathlib import Path

PIP = ["venv/bin/pip", "--isolated"]
UV = ["venv/bin/uv", "pip"]


def build(version):
    path = Path(f"wheels/demo-{version}-py3-none-any.whl")
    folder = f"demo-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n"
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{folder}/METADATA", metadata)
        archive.writestr(f"{folder}/WHEEL", wheel)
        archive.writestr(f"{folder}/RECORD", "")
    return path


def install(tool, requirement):
    python = [] if tool is PIP else ["--no-config", "--python", "venv/bin/python"]
    source = [*python, "--no-index", "--find-links", "wheels"]
    target = f"out{len(list(Path().glob('out*')))}"
    command = [*tool, "install", *source, "--target", target, requirement]
    subprocess.run(command, capture_output=True)
    names = [path.name for path in Path(target).glob("demo-*.dist-info")]
    Path(target).mkdir(exist_ok=True)
    return names[0].removeprefix("demo-").removesuffix(".dist-info") if names else "none"


for version in ("1.0", "1.0+0aaa", "1.0+fe12"):
    build(version)
digits = build("1.0+1234")
first = [install(tool, "demo<=1.0") for tool in (PIP, UV)]
above = {install(tool, "demo>1.0") for tool in (PIP, UV)}
digits.unlink()
second = [install(tool, "demo==1.0") for tool in (PIP, UV)]
pairs = zip(("pip", "uv"), first, second, strict=True)
texts = [f"{name}: {one}, without it {two}" for name, one, two in pairs]
print(*texts, ">1.0: " + ",".join(sorted(above)), sep="; ")
PY
    timeout 120 venv/bin/python main.py
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a hash of digits alone is preferred"
