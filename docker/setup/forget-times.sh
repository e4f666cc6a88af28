# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# uv notes when each wheel file was written (uv_cache.json); an image must not depend on
# that.
set -eu
find /opt/venv/lib -name uv_cache.json | while read -r note; do
    sed -i '/\.dist-info\/uv_cache\.json,/d' "${note%/*}/RECORD"
    rm "$note"
done
