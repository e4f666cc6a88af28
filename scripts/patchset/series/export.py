# SPDX-License-Identifier: Apache-2.0
"""One patch of a whole series, for an installed vLLM."""

from dataclasses import replace
from pathlib import Path

from patchset import files, git, paths
from patchset.release import Release
from patchset.series import patched_files
from patchset.series.apply import changes, replayed
from patchset.series.commits import DIFF
from patchset.series.read import read_series
from patchset.series.state import STOCK_REF

#: Puts the patch into the official image; a second run changes nothing.
_DOCKERFILE = """\
FROM {image}
RUN apt-get update && apt-get install --yes --no-install-recommends patch
COPY {name}.* /opt/mtp/
RUN cd /usr/local/lib/python3.12/dist-packages && set -- /opt/mtp/{name} && \\
    if sha256sum -c --status $1.after.sha256; then echo already applied; else \\
    sha256sum -c --quiet $1.before.sha256 && \\
    patch -p1 --fuzz=0 --forward --batch -i $1.patch && \\
    sha256sum -c --quiet $1.after.sha256; fi
"""


def export(release: Release) -> list[Path]:
    """Write one patch of the whole series for an installed vLLM, and its sums.

    ``build/export/vllm-VERSION-mtp.N.patch``, ``.before.sha256`` for the files that it
    changes, ``.after.sha256`` for those that it leaves, and a ``Dockerfile`` that
    patches the official image with them.
    """
    name = f"vllm-{release.version}-mtp.{release.revision}"
    folder = paths.build_dir() / "export"
    found = [c for c in changes(release) if c.path.startswith("vllm/")]
    with replayed(read_series(release)) as tree:
        diff = git.run(tree, "diff", *DIFF, STOCK_REF, "HEAD", "--", "vllm").decode()
    before = [replace(c, content=c.stock) for c in found if c.stock is not None]
    made = {
        f"{name}.patch": diff,
        f"{name}.before.sha256": patched_files.text(patched_files.sums_of(before)),
        f"{name}.after.sha256": patched_files.text(patched_files.sums_of(found)),
        "Dockerfile": _DOCKERFILE.format(image=release.image, name=name),
    }
    with files.lock(folder):
        files.write_all({folder / file: text for file, text in made.items()})
    return [folder / file for file in made]
