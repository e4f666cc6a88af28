# SPDX-License-Identifier: Apache-2.0
"""The small model: what is shipped of it, and how it is taught again."""

import json
import os
from pathlib import Path

from patchset import console, files
from patchset.errors import PatchsetError
from server.questions import ANSWERS, answers
from server.training import FOLDER, MADE, RELEASE

__all__ = ["FOLDER", "RELEASE", "checkpoint", "teach"]


def checkpoint() -> Path:
    """Return the folder of the model that is shipped, as a server takes it.

    Raises:
        PatchsetError: a file of it is not as it was made.
    """
    made = json.loads((FOLDER / MADE).read_text(encoding="utf-8"))
    for name, sha256 in made["sha256"].items():
        path = FOLDER / name
        if not path.is_file() or files.sha256_file(path) != sha256:
            raise PatchsetError(
                f"the small model's {name} is not the one that was shipped",
                f"git checkout {FOLDER.name}, or teach it again: nox -s receipt -- "
                "--teach",
            )
    return FOLDER


def teach() -> None:
    """Teach the model what it is asked now, in place of the one that is shipped.

    The training takes minutes; that it is interrupted changes nothing.

    Raises:
        PatchsetError: the training failed, or the model did not learn its answers.
    """
    # The receipt's file, which reads a model alone, has none of these.
    from patchset import process, release
    from server import environment, vllm_serve

    python = environment.environment(release.load(RELEASE))
    before = answers(FOLDER) if (FOLDER / ANSWERS).is_file() else {}
    with (
        console.step("teach the model its answers (ten minutes on two cores)"),
        files.lock(FOLDER),
        files.atomic_folder(FOLDER) as folder,
    ):
        command = [str(python), "-m", "server.training", str(folder)]
        # The training needs the lanes and the shim alone.
        shim = vllm_serve.on_cpu(path=str(Path(__file__).parents[1])).variables
        quiet = {"OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}
        process.run(command, prefix="model", env=os.environ | shim | quiet)
    after = answers(FOLDER)
    same = sum(before.get(key) == tokens for key, tokens in after.items())
    console.result(f"{FOLDER}: {len(after)} answers, {same} of them as before")
