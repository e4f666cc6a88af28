# SPDX-License-Identifier: Apache-2.0
"""The gpu lane on a host without a network.

Run it once for each delivery of parts, with the same --store, and then until it says that all cells are done. What
an earlier run did is not done again; on another host, or when the store was lost, deliver its results.json beside the
parts. Exit status: 0 all cells are done and right; 1 something is wrong; 3 parts are missing; 4 the time was up, run it
again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import gpus  # type: ignore[import-not-found]  # these lie beside this file in the script
import install  # type: ignore[import-not-found]
import results
import store as parts  # type: ignore[import-not-found]

MISSING, TIME_UP = 3, 4
#: Seconds kept back for stopping servers and writing results.
RESERVE = 15
#: What one run may take, in seconds: a host that is lost takes no more than this with it.
SLICE = 480
#: Bound of the log that is handed back, in bytes.
MOST_LOG = 4 << 20


def main() -> int:
    started = time.monotonic()
    chosen = _arguments()
    manifest = json.loads(_inside("manifest.json"))
    try:
        return _run(manifest, chosen, started + chosen.seconds - RESERVE)
    except (parts.HostError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", type=Path, help="folders in which parts were delivered")
    parser.add_argument("--store", type=Path, required=True, help="where everything is kept between runs")
    parser.add_argument("--out", type=Path, required=True, help="where results.json and lane.log are written")
    parser.add_argument(
        "--seconds", type=float, default=SLICE, help="how long this run may take; default: %(default)s"
    )
    parser.add_argument("--release", action="append", help="only this release of the bundle")
    parser.add_argument("--variants", default="patched,stock", help="default: %(default)s")
    parser.add_argument(
        "--cells", default="graphs,prefix,eager,sync,prefix-sync", help="default: %(default)s"
    )
    parser.add_argument("--mtp", default="0-5", help="numbers of drafted tokens; default: %(default)s")
    parser.add_argument("--servers", type=int, default=4, help="servers at a time; default: %(default)s")
    parser.add_argument(
        "--model", type=Path, help="real weights, a folder on this host, instead of the small model"
    )
    return parser.parse_args()


def _run(manifest: dict[str, Any], chosen: argparse.Namespace, deadline: float) -> int:
    store, out = chosen.store.resolve(), chosen.out.resolve()
    store.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    _fits(manifest["host"])
    if left := parts.accept(manifest, [*chosen.parts, Path(sys.argv[0]).resolve().parent], store):
        print(f"{len(left)} of {len(manifest['parts'])} parts are missing: {', '.join(left)}")
        return MISSING
    print("all parts are here", flush=True)
    kept = store / ("results" if chosen.model is None else "results-of-weights")
    if carried := results.carry(chosen.parts, kept):
        print(f"{carried} cells were done by an earlier host", flush=True)
    files = parts.unpack(manifest, store)
    names = [name for name in manifest["releases"] if not chosen.release or name in chosen.release]
    if not names:
        raise parts.HostError(f"the bundle has {', '.join(manifest['releases'])} alone")
    ready = {}
    for name in names:
        if time.monotonic() > deadline:
            print("the time is up: run it again to go on")
            return TIME_UP
        ready[name] = _install(files, name, manifest, store)
    count, why = gpus.visible()
    if not count:
        print(why)
        return 1
    status = 0
    cells = chosen.cells.split(",")
    for wanted in (cells[:1], cells) if len(cells) > 1 else (cells,):
        for name in names:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                status = TIME_UP
            else:
                status = max(status, _lane(ready[name], kept, out, chosen, ",".join(wanted), seconds))
            _collect(kept, out)
    print(
        {0: "all cells are done", TIME_UP: "the time is up: run it again to go on"}.get(
            status, "see lane.log"
        )
    )
    return status


def _fits(host: dict[str, str]) -> None:
    """The bundle is for one Python and one torch."""
    python = "{}.{}".format(*sys.version_info[:2])
    if python != host["python"]:
        raise parts.HostError(f"this is Python {python}; the bundle is for {host['python']}")
    for name, wanted in host.items():
        if name == "python":
            continue
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise parts.HostError(
                f"this Python has no {name}; the bundle counts on {name} {wanted}"
            ) from None
        if wanted and found.partition("+")[0] != wanted:
            raise parts.HostError(f"this Python has {name} {found}; the bundle is for {wanted}")


def _install(files: Path, name: str, manifest: dict[str, Any], store: Path) -> Path:
    """Install a release, import what its servers import, and write down for the lane what there is."""
    release, folder = manifest["releases"][name], store / name
    print(f"install {name}", flush=True)
    site = install.site(files, name, release, folder)
    ours = install.patched(files, release, folder)
    lane = [files / "lane" / "tests", files / "lane" / "scripts"]
    variants = {}
    for variant, paths in (("stock", [site]), ("patched", [ours, site])):
        seen = install.program(folder / f"run-{variant}", [*paths, *lane])
        mark = folder / f"IMPORTS-{variant}"
        if not mark.is_file() or mark.read_text(encoding="utf-8") != release["key"]:
            _imports(seen / "bin" / "python", name, variant, [*paths, *lane])
            mark.write_text(release["key"], encoding="utf-8")
        variants[variant] = {"folder": str(seen), **release["variants"][variant]}
    prepared = {
        "release": name,
        "variants": variants,
        "checkpoint": str(files / release["checkpoint"]),
        "bundle": release["bundle"],
    }
    (folder / "prepared.json").write_text(json.dumps(prepared, indent=1), encoding="utf-8")
    return folder


def _imports(python: Path, name: str, variant: str, own: list[Path]) -> None:
    asked = subprocess.run(
        [str(python), "-c", _inside("imports.py"), *map(str, own)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        said = json.loads(asked.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise parts.HostError(
            f"{name} {variant} cannot be imported: {asked.stderr.strip()[-1500:]}"
        ) from None
    if said["failed"]:
        which, why = next(iter(said["failed"].items()))
        raise parts.HostError(f"{name} {variant}: {which} cannot be imported:\n{why[-1500:]}")
    print(
        f"  {variant}: {said['imported']} modules of the server are imported, parsers {', '.join(said['parsers'])}; "
        f"{said['scenarios']} scenarios of tool-eval-bench; {said['bundle']} packages from the bundle, from the host {', '.join(said['host'])}",
        flush=True,
    )


def _lane(folder: Path, kept: Path, out: Path, chosen: argparse.Namespace, cells: str, seconds: float) -> int:
    store = kept.parent
    command = [
        str(folder / "run-patched" / "bin" / "python"),
        "-m",
        "gpu.carried",
        str(folder / "prepared.json"),
    ]
    command += ["--cells", cells, "--mtp", chosen.mtp, "--variants", chosen.variants]
    command += [
        "--servers",
        str(chosen.servers),
        "--seconds",
        f"{seconds:.0f}",
        "--out",
        str(kept),
    ]
    if chosen.model is not None:
        command += ["--model", str(chosen.model.resolve())]
    variables = os.environ | {
        # What is compiled for one server serves the next.
        "TRITON_CACHE_DIR": str(store / "cache" / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(store / "cache" / "inductor"),
        "PATCHSET_ROOT": str(store),
        "PATCHSET_BUILD_DIR": str(store / "build"),
    }
    with (out / "lane.log").open("ab") as log:
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in process.stdout or ():
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            if log.tell() < MOST_LOG:
                log.write(line)
            _collect(kept, out)  # a run that is cut off leaves what is done
        return process.wait()


def _collect(kept: Path, out: Path) -> None:
    """Hand back all results in one file, and the ends of the logs of what failed in another."""
    results.write(kept, out)
    text = "".join(
        f"== {file.stem}\n{file.read_text(encoding='utf-8', errors='replace')[-40_000:]}\n"
        for file in sorted(kept.glob("failed/*.txt"))
    )
    (out / "failed.txt").write_text(text[:MOST_LOG], encoding="utf-8")


def _inside(name: str) -> str:
    """A text file of this script."""
    with zipfile.ZipFile(Path(__file__).parent) as script:
        return script.read(name).decode("utf-8")


if __name__ == "__main__":
    sys.exit(main())
