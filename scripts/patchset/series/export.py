# SPDX-License-Identifier: Apache-2.0
"""One patch of a whole series, for an installed vLLM."""

import shutil
from dataclasses import replace
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import UsageError
from patchset.release import Release
from patchset.series import patched_files
from patchset.series.apply import changes, replayed
from patchset.series.commits import DIFF
from patchset.series.read import read_series
from patchset.series.state import STOCK_REF

#: What goes with every patch: the program that applies it, and a Dockerfile.
_EXPORTED = Path(__file__).with_name("exported")


def export(release: Release) -> Path:
    """Write one patch of the whole series, and what applies it; the folder.

    ``build/export/RELEASE`` has ``vllm-VERSION-mtp.N.patch``, ``.before.sha256`` for
    the files that it changes, ``.after.sha256`` for those that it leaves,
    ``patch-vllm.sh``, which applies and undoes it, and a ``Dockerfile`` that has it
    patch an image.
    """
    folder = paths.build_dir() / "export" / release.name
    found = [c for c in changes(release) if c.path.startswith("vllm/")]
    before = [replace(c, content=c.stock) for c in found]
    with replayed(read_series(release)) as tree:
        diff = git.run(tree, "diff", *DIFF, STOCK_REF, "HEAD", "--", "vllm").decode()
    made = {
        "patch": diff,
        "before.sha256": patched_files.text(patched_files.sums_of(before)),
        "after.sha256": patched_files.text(patched_files.sums_of(found)),
    }
    with files.lock(folder), files.atomic_folder(folder) as new:
        shutil.copy(_EXPORTED / "patch-vllm.sh", new)
        dockerfile = (_EXPORTED / "Dockerfile").read_text(encoding="utf-8")
        (new / "Dockerfile").write_text(dockerfile.replace("@IMAGE@", release.image))
        for kind, text in made.items():
            file = new / f"vllm-{release.version}-mtp.{release.revision}.{kind}"
            file.write_text(text, encoding="utf-8")
        for file in new.iterdir():  # for whoever runs it, in an image too
            file.chmod(0o755 if file.suffix == ".sh" else 0o644)
    return folder


def mails(release: Release, folder: Path) -> list[Path]:
    """Write a numbered mail for our modules and one for each patch; their files.

    ``git am`` and quilt take them. The folder must be empty, or not there.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", "name a new folder for the mails")
    options = ("--zero-commit", "--no-signature", "--no-stat", "--no-numbered")
    with replayed(read_series(release)) as tree:
        out = ("--output-directory", str(folder.resolve()))
        git.run(tree, "format-patch", "--quiet", *options, *DIFF, *out, STOCK_REF)
    return sorted(folder.iterdir())
