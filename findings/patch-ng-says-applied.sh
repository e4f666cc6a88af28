#!/usr/bin/env bash
# patch-ng 1.19.1 (Conan's) takes patches that git wrote, returns True, and leaves out what
# they say besides lines: a script is not made executable, an empty new file is not made,
# a file without a last line end gets one. A patch that removes a file also removes one that
# has other contents, where git refuses.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq patch-ng==1.19.1
cat >change.diff <<'DIFF'
diff --git a/b.txt b/b.txt
index 2e65efe..63d8dbd 100644
--- a/b.txt
+++ b/b.txt
@@ -1 +1 @@
-a
\ No newline at end of file
+b
\ No newline at end of file
diff --git a/empty.py b/empty.py
new file mode 100644
index 0000000..e69de29
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
DIFF
cat >removal.diff <<'DIFF'
--- a/b.txt
+++ /dev/null
@@ -1 +0,0 @@
-what stood there
DIFF
expected='git apply: True; executable: True; empty.py: True; b.txt: "b"
patch-ng: True; executable: False; empty.py: False; b.txt: "b\n"
removal of a file with other contents: git apply False, patch-ng True'
seen=$(cat >main.py <<'PY'
import json
import os
import subprocess
from pathlib import Path

import patch_ng


def git(patch, folder):
    command = ["git", "apply", f"../{patch}"]
    return subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


def ng(patch, folder):
    return bool(patch_ng.fromfile(patch).apply(root=folder))


removed = []
for name, apply in (("git apply", git), ("patch-ng", ng)):
    folder = Path(name.split()[0])
    folder.mkdir()
    (folder / "b.txt").write_text("a")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    done = apply("change.diff", folder)
    executable = os.access(folder / "run.sh", os.X_OK)
    empty = (folder / "empty.py").exists()
    text = json.dumps((folder / "b.txt").read_text())
    print(f"{name}: {done}; executable: {executable}; empty.py: {empty}; b.txt: {text}")
    removed.append(f"{name} {apply('removal.diff', folder)}")
print("removal of a file with other contents:", ", ".join(removed))
PY
    GIT_CEILING_DIRECTORIES=$work timeout 120 venv/bin/python main.py 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: what git would apply or refuse is left out or done, and reported as applied"
