#!/usr/bin/env bash
# patchutils 0.4.2 (Debian 12): combinediff loses the mark of a missing last line end where
# the result keeps the file of one patch alone, so the combined patch adds one. recountdiff
# makes a right patch malformed that removes a line beginning with "-- ", as comments of
# SQL and Lua do. filterdiff drops changes of mode, even of a patch that it should not filter.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download patchutils=0.4.2-1
dpkg -x patchutils_*.deb .
export PATH=$work/usr/bin:$PATH
cat >one.diff <<'DIFF'
diff --git a/one.txt b/one.txt
--- a/one.txt
+++ b/one.txt
@@ -1 +1 @@
-a
\ No newline at end of file
+b
\ No newline at end of file
DIFF
cat >two.diff <<'DIFF'
diff --git a/two.txt b/two.txt
--- a/two.txt
+++ b/two.txt
@@ -1 +1 @@
-a
+b
DIFF
cat >comment.diff <<'DIFF'
--- a/three.sql
+++ b/three.sql
@@ -1,3 +1,2 @@
 begin;
--- old
 end;
DIFF
cat >mode.diff <<'DIFF'
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
DIFF
cat one.diff mode.diff >both.diff
expected='one behind the other: "b", combined: "b\n"
comment removed: applied, recounted: malformed patch
mode: 2 lines, filtered with --exclude=nothing: 0'
apply() {
    rm -rf tree && mkdir tree
    printf a >tree/one.txt && printf 'a\n' >tree/two.txt
    printf 'begin;\n-- old\nend;\n' >tree/three.sql
    local patch
    for patch in "$@"; do
        LC_ALL=C patch -d tree -p1 -s <"$patch"
    done
}
text() { python3 -c 'import json; print(json.dumps(open("tree/one.txt").read()))'; }
seen=$(
    combinediff -q one.diff two.diff >combined.diff
    recountdiff comment.diff >recounted.diff
    apply one.diff two.diff && printf 'one behind the other: %s, ' "$(text)"
    apply combined.diff && printf 'combined: %s\n' "$(text)"
    apply comment.diff && printf 'comment removed: applied, '
    printf 'recounted: %s\n' "$(apply recounted.diff 2>&1 | grep -o 'malformed patch')"
    printf 'mode: %s lines, ' "$(grep -c mode both.diff)"
    filtered=$(filterdiff --exclude=nothing both.diff | grep -c mode) || true
    printf 'filtered with --exclude=nothing: %s\n' "$filtered"
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: patches lose a mark, their counts and changes of mode"
