# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# The last step of the base of Debian packages; "$1" is the new root. Removes traces of the machine and the time of the
# build, and rights that nobody in the image needs.
set -eu
cd "$1"
cat > etc/apt/sources.list <<'END'
deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
END
rm -f etc/apt/apt.conf.d/99mmdebstrap etc/resolv.conf etc/machine-id
rm -f var/cache/ldconfig/aux-cache var/cache/debconf/*-old
rm -rf var/log/apt var/lib/apt/lists/* var/cache/apt/*.bin
find var/log -type f -delete
find . -xdev -type f -perm /6000 -exec chmod ug-s {} +
find . -xdev -type f -perm /0002 -exec chmod o-w {} +
find . -xdev -type d -perm -0002 ! -perm -1000 -exec chmod o-w {} +
echo localhost > etc/hostname
