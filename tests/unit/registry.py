# SPDX-License-Identifier: Apache-2.0
"""A registry on loopback, and small images in it that have the made-up release."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from patchset.image import layout
from patchset.release import GOARCH, Arch


@contextlib.contextmanager
def registry(folder: Path, htpasswd: str | None = None) -> Iterator[str]:
    """Run Debian's docker-registry with its storage in a folder; yield HOST:PORT."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config: dict[str, Any] = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if htpasswd is not None:
        (folder / "htpasswd").write_text(htpasswd)
        login = {"realm": "test", "path": str(folder / "htpasswd")}
        config["auth"] = {"htpasswd": login}
    (folder / "registry.yml").write_text(json.dumps(config))
    with (folder / "registry.log").open("wb") as log:
        argv = ["docker-registry", "serve", str(folder / "registry.yml")]
        # It takes variables that begin with REGISTRY_ for its own settings.
        env = {k: v for k, v in os.environ.items() if not k.startswith("REGISTRY_")}
        server = subprocess.Popen(argv, stdout=log, stderr=log, env=env)
    try:
        while b"listening on" not in (folder / "registry.log").read_bytes():
            assert server.poll() is None
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def push(
    reference: str,
    layers: Sequence[bytes],
    *,
    archs: Sequence[Arch] = ("x86_64", "aarch64"),
    labels: Mapping[str, str] = MappingProxyType({"kept": "yes"}),
    folder: Path,
) -> str:
    """Push an image of these layers, for these processors, by skopeo; its digest."""
    blobs: list[bytes] = [*layers]
    entries = []
    for arch in archs:
        platform = {"architecture": GOARCH[arch], "os": "linux"}
        unpacked = [layout.digest(layer) for layer in layers]
        config = layout.dump(
            {
                **platform,
                "config": {"User": "2000:0", "Labels": dict(labels)},
                "history": [{"created_by": arch}],
                "rootfs": {"type": "layers", "diff_ids": unpacked},
            }
        )
        manifest = layout.dump(
            {
                "schemaVersion": 2,
                "mediaType": layout.MANIFEST,
                "config": layout.descriptor(config, layout.CONFIG),
                "layers": [layout.descriptor(layer, layout.LAYER) for layer in layers],
            }
        )
        blobs += [config, manifest]
        entries.append(layout.descriptor(manifest, layout.MANIFEST, platform=platform))
    top = entries[0]
    if len(entries) > 1:
        index = {"schemaVersion": 2, "mediaType": layout.INDEX, "manifests": entries}
        blobs.append(layout.dump(index))
        top = layout.descriptor(blobs[-1], layout.INDEX)
    place = folder / f"push-{len(list(folder.iterdir()))}"
    layout.write(place, top, "v1", blobs)
    skopeo(
        "copy",
        "--all",
        "--preserve-digests",
        "--dest-tls-verify=false",
        f"oci:{place}:v1",
        f"docker://{reference}",
    )
    shutil.rmtree(place)
    return str(top["digest"])


def skopeo(*words: str) -> bytes:
    done = subprocess.run(["skopeo", *words], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def raw(reference: str) -> dict[str, Any]:
    """Return a manifest as the registry holds it."""
    words = ("inspect", "--raw", "--tls-verify=false", f"docker://{reference}")
    found: dict[str, Any] = json.loads(skopeo(*words))
    return found


def pulled(reference: str, folder: Path, arch: str = "amd64") -> Path:
    """Pull an image, and unpack it by umoci; its root file system."""
    skopeo(
        "copy",
        f"--override-arch={arch}",
        "--src-tls-verify=false",
        f"docker://{reference}",
        f"oci:{folder / 'pulled'}:it",
    )
    argv = ["umoci", "unpack", "--rootless", "--image", "pulled:it", "bundle"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "bundle" / "rootfs"
