#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Apply the patch beside this file to an installed vLLM, undo it, or say what is there.
#
# Each file is judged by itself, by the sums beside this file, so the next run finishes
# one that was killed. New files are made and checked in a folder inside vllm/. They are
# renamed into place, which takes no space and does not write through hard links.
set -u
umask 022
LC_ALL=C
export LC_ALL
unset CDPATH
me=${0##*/} work='' swapping=''

usage() {
    cat <<END
usage: $me apply|undo|state [FOLDER|PYTHON]

  apply  patch the installed vLLM
  undo   make it stock again
  state  say which of these it is, and change nothing

FOLDER is the one that has vllm/ in it, such as site-packages, or a virtual environment.
Without it, the folder from which python3, or PYTHON, imports vllm. Stop the server first.

Exit status: 0 it is as asked (state: patched); 1 it is not, and nothing was changed;
2 there is no vLLM, or the command line is wrong; 3 it is stock (state).
END
}

finish() { # STATUS SENTENCE
    printf '%s\n' "$2"
    exit "$1"
}

fail() { # STATUS SENTENCE
    trap '' HUP INT PIPE TERM
    sentence=$2
    restore || sentence="$sentence, except files that could not be put back: run it again"
    printf '%s: %s\n' "$me" "$sentence" >&3
    exit "$1"
}

# Put back what was renamed so far.
restore() {
    [ "$swapping" ] || return 0
    swapping='' status=0
    while read -r kind path; do
        if [ -e "$work/new/$path" ]; then
            continue # its turn had not come
        elif [ -e "$work/old/$path" ]; then
            mv -f "$work/old/$path" "$path" || status=1
        else
            [ "$kind" != changed ] && rm -f "$path" || status=1
        fi
    done <"$work/todo" || status=1
    remove_folders
    return $status
}

# Remove the folders that were made for new files.
remove_folders() {
    while read -r _ path; do
        [ -e "$path" ] || rmdir "${path%/*}/__pycache__"
        [ -e "$path" ] || rmdir -p "${path%/*}"
    done <"$made.after.sha256"
}

# Remove what a run left that was killed; end beside one that is at work.
take_turn() {
    # Another container's processes are not seen here; where flock is, its lock is.
    flock -n 0 <&9
    lock=$?
    for other in "$site"/vllm/.patch-vllm-*; do
        [ $lock = 0 ] || [ "$other" = "$work" ] ||
            ! grep -qs "$me" "/proc/${other##*-}/cmdline" ||
            fail 1 "nothing is changed, because process ${other##*-} is at work in $site"
    done
    [ $lock != 1 ] || fail 1 "nothing is changed, because another run is at work in $site"
    for other in "$site"/vllm/.patch-vllm-*; do
        [ -d "$other" ] && [ "$other" != "$work" ] || continue
        rm -rf "$other"
        remove_folders
    done
}

# Tell if the patch and its sums name the same files, to be changed, deleted or new.
belong_together() {
    awk '
        part != "patch" { sums[$2] = sums[$2] part; next }
        /^diff --git / { path = substr($3, 3); named[path] = "before after " }
        /^new file / { named[path] = "after " }
        /^deleted file / { named[path] = "before " }
        END {
            for (path in named) sums[path]
            for (path in sums) if (sums[path] != named[path]) exit 1
        }' part="before " "$made.before.sha256" part="after " "$made.after.sha256" \
        part=patch "$made.patch"
}

# Print the folder from which a Python imports vllm, without importing it. What its
# site says at its start is cut off, and at its end is not said.
ask() {
    "$1" -c '
import importlib.util, os, sys
sys.path[:] = [folder for folder in sys.path if folder]
spec = importlib.util.find_spec("vllm")
folder = os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else ""
print(folder, flush=True)
os._exit(0)
' | tail -n 1
}

# Print KIND STATE PATH for each file of the patch, below the current folder. The kind is
# changed, deleted or new; the state is stock, patched or other.
judge() {
    {
        sed 's/^/before /' "$made.before.sha256"
        sed 's/^/after /' "$made.after.sha256"
        cut -d ' ' -f 3 "$made.before.sha256" "$made.after.sha256" | sort -u |
            while read -r path; do
                [ -e "$path" ] || [ -L "$path" ] || continue
                { [ -f "$path" ] && sha256sum "$path"; } || echo "- $path"
            done | sed 's/^/now /'
    } | awk '
        { sums[$1, $3] = $2 ""; paths[$3] }
        END {
            for (path in paths) {
                before = sums["before", path]
                after = sums["after", path]
                now = sums["now", path]
                kind = before == "" ? "new" : after == "" ? "deleted" : "changed"
                state = now == before ? "stock" : now == after ? "patched" : "other"
                print kind, state, path
            }
        }' | sort
}

count() { # EXPRESSION, for the kind and the state
    printf '%s\n' "$files" | grep -Ec "^$1 "
}

# Judge the files, and end where nothing is to be done, or nothing can be.
look() {
    files=$(judge)
    all=$(count '.*')
    left=$(count 'new (patched|other)')
    other=$(count '[a-z]+ other')
    if [ "$(count '[a-z]+ patched')" = "$all" ]; then
        state=patched
    elif [ "$(count '[a-z]+ stock')" = "$all" ]; then
        state=stock
    elif [ "$(count '(changed|deleted) (patched|other)')" = 0 ]; then
        state=left
    elif [ "$other" = 0 ]; then
        state=half
    else
        path=$(printf '%s\n' "$files" | sed -n 's/^[a-z]* other //p' | head -n 1)
        why='changed by something else'
        [ "$left" = 0 ] || why="$why, or of another revision of the patch"
        fail 1 "$other of $all files of $what, such as $path, are $why: \
undo that first, or reinstall vLLM $version"
    fi
    case $action.$state in
    state.patched) finish 0 "patched: $what" ;;
    state.stock) finish 3 "stock: $what" ;;
    state.left) finish 1 "stock, but with $left files that an earlier patch left: $what" ;;
    state.half) finish 1 "half patched, which apply or undo ends: $what" ;;
    apply.patched) finish 0 "already patched: $what" ;;
    undo.stock) finish 0 "nothing to undo, it is stock: $what" ;;
    esac
}

# Copy each file that changes to old/, and make what takes its place in new/.
prepare() {
    mkdir "$work/old" "$work/new" "$work/tree" || return 1
    while read -r kind path; do
        folder=${path%/*}
        if [ -d "$folder" ] && [ ! -w "$folder" ]; then
            echo "no right to write in $folder"
            return 1
        fi
        mkdir -p "$work/old/$folder" "$work/new/$folder" "$work/tree/$folder" || return 1
        [ -e "$path" ] || continue
        cp -p "$path" "$work/old/$path" || return 1
        [ "$kind" = new ] || cp "$path" "$work/tree/$path" || return 1
    done <"$work/todo"

    # The part of the patch for these files; to undo new ones takes none.
    awk -v action="$action" '
        NR == FNR && ($1 != "new" || action == "apply") {
            wanted["diff --git a/" $2 " b/" $2]
        }
        NR == FNR { next }
        /^diff --git / { taken = $0 in wanted }
        taken' "$work/todo" "$made.patch" >"$work/patch" || return 1
    if [ -s "$work/patch" ]; then
        (
            cd "$work/tree" || exit 1
            # Without the user's settings, or a repository around the folder.
            set -- env -i "PATH=$PATH" "TMPDIR=$work" GIT_CONFIG_NOSYSTEM=1 \
                "GIT_CEILING_DIRECTORIES=$work"
            if patch --version >/dev/null 2>&1; then
                set -- "$@" patch --batch --silent --fuzz=0 --input=../patch
            else
                set -- "$@" git apply --whitespace=nowarn ../patch
            fi
            [ "$action" = apply ] || set -- "$@" -R
            "$@" -p1 </dev/null
        ) || return 1
    fi
    (cd "$work/tree" && judge) | sed -n "s/ $goal / /p" >"$work/right" || return 1
    if grep -Fqxvf "$work/right" "$work/todo"; then
        echo "$made.patch does not make the files that its sums name"
        return 1
    fi

    # With the owner and the mode of the old file, or of one that is vLLM's.
    while read -r kind path; do
        [ -e "$work/tree/$path" ] || continue
        like=vllm/__init__.py
        [ "$kind" != changed ] || like=$path
        cp -p "$like" "$work/new/$path" || return 1
        [ -w "$work/new/$path" ] || chmod u+w "$work/new/$path" || return 1
        cat "$work/tree/$path" >"$work/new/$path" || return 1
    done <"$work/todo"
}

swap() {
    swapping=yes
    while read -r kind path; do
        if [ -e "$work/new/$path" ]; then
            mkdir -p "${path%/*}" && [ ! -d "$path" ] && mv -f "$work/new/$path" "$path"
        else
            [ "$kind" != changed ] && rm -f "$path"
        fi || return 1
    done <"$work/todo"
    trap '' HUP INT PIPE TERM
    swapping=''
    # Python may take bytecode without a look at its source.
    while read -r kind path; do
        name=${path##*/}
        rm -f "${path%/*}/__pycache__/${name%.py}".*.pyc
    done <"$work/todo"
    remove_folders
    return 0
}

exec 3>&2 2>/dev/null # a shell tells of children that a signal ended
action=${1-}
case $#.$action in
1.-h | 1.--help) usage && exit ;;
[12].apply) goal=patched order=-r ;; # new files come before what imports them
[12].undo) goal=stock order=-f ;;
[12].state) ;;
*) usage >&3 && exit 2 ;;
esac
trap 'restore; [ -z "$work" ] || rm -rf "$work"' EXIT
trap 'fail 129 "interrupted: nothing is changed"' HUP
trap 'fail 130 "interrupted: nothing is changed"' INT
trap 'fail 143 "interrupted: nothing is changed"' TERM

here=$(cd -- "$(dirname -- "$0")" && pwd -P) || exit 2
place=${2-}
set -- "$here"/vllm-*-mtp.*.patch
[ -e "$1" ] || fail 2 "no patch lies beside it in $here: copy the whole folder"
[ $# = 1 ] || fail 2 "$# patches lie beside it in $here: copy each folder by itself"
made=${1%.patch}
for tool in awk cut grep sed sha256sum sort; do
    command -v $tool >/dev/null || fail 1 "nothing is changed, because $tool is missing"
done
belong_together || fail 1 "nothing is changed, because the patch and its sums in $here \
do not belong together, or cannot be read: copy the whole folder again"
version=${made##*/vllm-}
revision=${version##*-}
version=${version%-*}

if [ -z "$place" ]; then
    place=$(command -v python3 || command -v python) ||
        fail 2 "no Python here says where vLLM is: name its folder"
elif [ -x "$place/bin/python" ]; then
    place=$place/bin/python
fi
if [ -d "$place" ]; then
    site=$place place=${place%/}
    [ -d "$site/vllm" ] || [ "${place##*/}" != vllm ] || site=$site/..
elif command -v "$place" >/dev/null; then
    site=$(ask "$place")
    [ "$site" ] || fail 2 "$place finds no vLLM: name its folder, or another Python"
else
    fail 2 "$place is neither a folder nor a Python"
fi
cd -- "$site" || fail 2 "$site cannot be entered"
site=$(pwd -P)
[ -f vllm/__init__.py ] || fail 2 "there is no vLLM in $site"
what="vLLM $version ($revision) in $site"

installed=$(sed -n "s/^__version__ = .*[\"']\([^\"']*\)[\"'].*/\1/p" vllm/_version.py)
case ${installed%%+*} in
"$version" | '' | *dev*) ;; # the sums tell
*) fail 1 "this is vLLM $installed, not $version: $site" ;;
esac
if [ "$action" != state ]; then
    work=$site/vllm/.patch-vllm-$$
    command exec 9<vllm
    take_turn
fi
look

for manifest in vllm-*.dist-info/patchset.json; do
    [ "$action" = apply ] || [ ! -f "$manifest" ] ||
        fail 1 "nothing is changed, because a patched wheel is installed in $site: \
reinstall vLLM $version"
done
links=$(printf '%s\n' "$files" | while read -r line; do
    [ ! -L "${line##* }" ] || echo
done | grep -c '')
[ "$links" = 0 ] || fail 1 "$links of $all files of $what are links: run \
UV_LINK_MODE=copy uv pip install --reinstall --no-deps vllm==$version first"
patch --version >/dev/null || command -v git >/dev/null || # not busybox's
    fail 1 "neither GNU patch nor git is here: install one of them"

rm -rf "$work"
error=$(mkdir "$work" 2>&1) || fail 1 "cannot write in $site/vllm: ${error##*: }"
take_turn
look # again, now that no other run can change them
error=$(printf '%s\n' "$files" | grep -v "^[a-z]* $goal " | sort "$order" |
    sed 's/ [a-z]* / /' 2>&1 >"$work/todo") ||
    fail 1 "cannot write in $site/vllm: ${error##*: }"
error=$(prepare 2>&1) || fail 1 "nothing is changed in $site: $(echo "$error" | tail -n 1)"
swap || fail 1 "nothing is changed in $site, because $path cannot be replaced"
case $action.$state in
apply.left) finish 0 "patched, with $left files of an earlier patch replaced: $what" ;;
undo.left) finish 0 "stock again, with $left files of an earlier patch removed: $what" ;;
apply.*) finish 0 "patched: $what" ;;
undo.*) finish 0 "stock again: $what" ;;
esac
