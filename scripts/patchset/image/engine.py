# SPDX-License-Identifier: Apache-2.0
"""The container engines: buildah, podman and docker behind one set of verbs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from patchset import console, files, process
from patchset.errors import MissingToolError, PatchsetError, UnavailableError
from patchset.release import EngineName

#: In the order in which they are tried: buildah needs neither a daemon nor anything at run time.
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

#: What engines say of the step they are at: ``STEP 5/22: RUN …``, ``[2/2] STEP 5/22: RUN …``, ``#9 [cuda 5/22] RUN …``.
_STEP = re.compile(r"(?:STEP (\d+)/(\d+): |#\d+ \[(?:\S+ )?(\d+)/(\d+)\] )(\w+)")

#: Beside a context that is built: the containers that were there before.
_JOURNAL = ".containers.json"


@dataclass(frozen=True)
class Engine:
    """One engine. Where it keeps images is its own configuration's business (``CONTAINERS_STORAGE_CONF`` is respected)."""

    name: EngineName

    @property
    def keeps_digests(self) -> bool:
        """Whether two builds from equal input can be equal: docker stamps layers with the time of the build."""
        return self.name != "docker"

    def full_tag(self, tag: str) -> str:
        """The tag as this engine writes it."""
        return tag if self.name == "docker" or tag.split("/")[0] == "localhost" else f"localhost/{tag}"

    def build(
        self,
        dockerfile: Path,
        context: Path,
        tag: str,
        *,
        epoch: int,
        arch: str,
        arguments: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        stage: str | None = None,
        cached: bool = True,
        unpacks: int = 0,
    ) -> None:
        """Build a Dockerfile's stage and tag it, without any network of its own where the engine can do that.

        ``cached`` lets the engine take steps from earlier builds; of ``unpacks`` bytes its largest step is taken to be.

        A failed or interrupted build leaves no working container behind; nor, once ``clean`` ran, does a killed one.
        Temporary files are beside the ``context``.
        """
        argv: list[str] = [self.name, "bud" if self.name == "buildah" else "build"]
        argv += ["--platform", {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}[arch]]
        if self.name == "docker":
            argv += ["--network", "none", "--progress", "plain"]
        else:
            # chroot isolation is the one that works everywhere, in containers and without privileges too; it
            # has no network of its own, which is why each installer in the Dockerfiles is told to stay offline.
            isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
            argv += ["--isolation", isolation, "--network", "host" if isolation == "chroot" else "none"]
            argv += ["--layers", "--format", "oci", "--pull=false", "--http-proxy=false"]
            argv += ["--timestamp", str(epoch)]
        arguments = arguments or {}
        for name, value in {"SOURCE_DATE_EPOCH": str(epoch), **arguments}.items():
            argv += ["--build-arg", f"{name}={value}"]
        for name, value in (labels or {}).items():
            argv += ["--label", f"{name}={value}"]
        argv += ["--target", stage] if stage else []
        argv += [] if cached else ["--no-cache"]
        argv += ["--file", str(dockerfile), "--tag", tag, str(context)]
        kept = {"base": arguments.get("BASE", ""), "containers": sorted(self._containers())}
        files.write_text(context.parent / _JOURNAL, json.dumps(kept))
        with tempfile.TemporaryDirectory(dir=context.parent, prefix=files.TEMP_PREFIX) as scratch:
            env = {**os.environ, "DOCKER_BUILDKIT": "1", "TMPDIR": scratch}
            try:
                steps = _Steps(self.name, self.storage() or context, unpacks)
                process.run(argv, prefix=self.name, env=env, on_line=steps.line, progress=steps.far)
            finally:
                self.clean(context.parent)

    def exists(self, tag: str) -> bool:
        """Whether the engine has an image of this name."""
        return output(self.name, "inspect", "--type", "image", tag) is not None

    def inspect(self, tag: str) -> dict[str, Any]:
        """The OCI configuration of an image (``User``, ``Labels`` …)."""
        answer = json.loads(self.describe(tag))
        found: dict[str, Any] = answer[0]["Config"] if isinstance(answer, list) else answer["OCIv1"]["config"]
        return found or {}

    def describe(self, tag: str) -> str:
        """All that the engine knows of an image, history included, as text."""
        argv = [self.name, "inspect", "--type", "image", tag]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PatchsetError(f"{self.name} inspect: {done.stderr.strip()[-500:]}")
        return done.stdout

    def pull(self, reference: str) -> None:
        """Fetch an image from its registry, unless it is there."""
        if self.exists(reference):
            return
        try:
            process.run([self.name, "pull", reference], prefix=self.name)
        except (process.ProgramError, UnavailableError) as error:
            raise UnavailableError(
                f"{self.name} has no image {reference}, and could not pull it (its words are above)",
                "check its name and the network; nox -s build-image makes an image",
            ) from error

    def size(self, tag: str) -> int | None:
        """The unpacked size in bytes, as far as the engine tells; None without such an image."""
        if self.name == "buildah":
            text = output("buildah", "images", "--json", tag)
            words = json.loads(text)[0].get("size", "").split() if text else []
            scale = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
            return int(float(words[0]) * scale[words[1]]) if len(words) == 2 and words[1] in scale else None
        text = output(self.name, "inspect", "--type", "image", "--format", "{{.Size}}", tag)
        return int(text) if text and text.isdecimal() else None

    def storage(self) -> Path | None:
        """The folder in which the engine keeps images, as far as it tells."""
        form = {
            "buildah": "{{.store.GraphRoot}}",
            "podman": "{{.Store.GraphRoot}}",
            "docker": "{{.DockerRootDir}}",
        }[self.name]
        found = output(self.name, "info", "--format", form)
        return Path(found) if found and Path(found).is_dir() else None

    def clean(self, folder: Path) -> None:
        """Remove the working containers of the last build of a context in ``folder``, whatever ended it: those that
        were not there before it, made from its base or from an image without a name, as its steps are."""
        journal = folder / _JOURNAL
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            kept = json.loads(journal.read_text(encoding="utf-8"))
            for name, image in self._containers().items():
                if name not in kept["containers"] and image in ("", "scratch", "<none>", kept["base"]):
                    subprocess.run([self.name, "rm", name], capture_output=True, check=False)
        journal.unlink(missing_ok=True)

    def _containers(self) -> dict[str, str]:
        """All containers, those of builds included, with the image each is made from. Docker's builder keeps none."""
        if self.name == "buildah":
            question = ["containers", "--all", "--notruncate", "--format", "{{.ContainerID}} {{.ImageName}}"]
        elif self.name == "podman":
            question = ["ps", "--all", "--external", "--no-trunc", "--format", "{{.ID}} {{.Image}}"]
        else:
            return {}
        rows = (line.split() for line in (output(self.name, *question) or "").splitlines())
        return {row[0]: row[1] if len(row) > 1 else "" for row in rows if row}


class _Steps:
    """Follows the steps of a build, for what is shown while the engine says nothing."""

    def __init__(self, name: str, storage: Path, unpacks: int) -> None:
        self._name, self._storage, self._unpacks = name, storage, unpacks
        self._begin("")

    def _begin(self, step: str) -> None:
        self._step, self._start = step, time.monotonic()
        self._used = shutil.disk_usage(self._storage).used

    def line(self, text: str) -> None:
        """One line of the engine's output."""
        if match := _STEP.search(text):
            number, count = match[1] or match[3], match[2] or match[4]
            self._begin(f"step {number} of {count}, {match[5]}, ")
        elif text.startswith("COMMIT "):
            self._begin("the image is stored, ")
        if text.strip():
            console.note(f"  {self._name}: {text}")

    def far(self) -> str:
        """How far the step is: by what the disk has taken since it began, from this build and from others."""
        seconds = time.monotonic() - self._start
        written = max(shutil.disk_usage(self._storage).used - self._used, 0)
        what = f"{written / 1e9:.1f} GB more on the disk"
        if "RUN" in self._step and 0 < written < self._unpacks:
            what = f"about {console.how_far(written, self._unpacks, seconds)}"
        return f"{self._step}at work for {console.duration(seconds)}, {what}"


def find(name: EngineName | None = None, *, arch: str | None = None, machine: str | None = None) -> Engine:
    """The engine called ``name``, or the first that is installed and answers.

    ``arch`` is what the image is for, ``machine`` what this is: another processor needs an emulator.
    """
    foreign = arch and machine and {"arm64": "aarch64"}.get(machine, machine) != arch
    if foreign and not Path(f"/proc/sys/fs/binfmt_misc/qemu-{arch}").exists():
        raise MissingToolError(
            f"an image for {arch} cannot be built on {machine}: its programs do not run here",
            "install an emulator: sudo apt-get install qemu-user-static binfmt-support",
        )
    reasons = {}
    for candidate in [name] if name else ENGINES:
        if (reason := _unusable(candidate)) is None:
            if name is None:
                console.note(f"engine: {candidate}")
            return Engine(candidate)
        reasons[candidate] = reason
    if name:
        raise MissingToolError(f"{name} cannot be used: {reasons[name][0]}", reasons[name][1])
    said = "; ".join(f"{candidate}: {why}" for candidate, (why, _) in reasons.items())
    raise MissingToolError(
        f"no container engine can be used ({said})", "install one: sudo apt-get install buildah"
    )


def _unusable(name: EngineName) -> tuple[str, str] | None:
    """Why an engine cannot be used and what to do, or none."""
    if shutil.which(name) is None:
        package = "docker.io" if name == "docker" else name
        return "not installed", f"install it: sudo apt-get install {package}"
    if name != "docker":
        return None
    buildah = "or sudo apt-get install buildah"
    if output("docker", "info", "--format", "{{.ServerVersion}}", timeout=20) is None:
        return "its daemon does not answer", f"start it: sudo systemctl start docker; {buildah}"
    client = output("docker", "version", "--format", "{{.Client.Version}}", timeout=20) or ""
    major = re.match(r"\d+", client)
    if major and int(major[0]) >= 23 and output("docker", "buildx", "version", timeout=20) is None:
        return "it has no buildx", f"install it: sudo apt-get install docker-buildx; {buildah}"
    return None


def output(*argv: str, timeout: float | None = None) -> str | None:
    """What a program printed; None when it printed nothing, failed, is not there or did not end in ``timeout`` seconds."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
