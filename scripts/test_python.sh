#!/usr/bin/env bash
# Runs tests with the Python of a release of Debian, in a folder in which debootstrap installs it (a minute for each).
# Usage: scripts/test_python.sh SUITE [COMMAND…]     for example: scripts/test_python.sh testing make demo
#
# Without a command, the whole suite runs. The folder is kept, so that the next run begins at once: NEARKIN_PYTHONS/SUITE, by
# default below /var/tmp. The files are those of the working tree that Git knows. Mounts end with the command. A machine that
# cannot install the release, or may not mount folders, says so and tests nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
suite="$1"
shift
skip() {
  echo "not tested with the Python of Debian $suite: $1" >&2
  exit 0
}
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "this needs root, on Debian"
unshare --mount true || skip "this process must not mount folders"
command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap >/dev/null; }
root="${NEARKIN_PYTHONS:-/var/tmp/nearkin-pythons}/$suite"
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  # the archive from which this machine installs its own packages
  archive="$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' | grep -v security | head -n 1)"
  # packages of the release under test may be older than their index says they are valid
  debootstrap --variant=minbase --include=python3-venv,python3-dev,git,make,gcc,libc6-dev,ca-certificates,nodejs \
    "$suite" "$root" "$archive" >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; skip "debootstrap failed"; }
  echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99valid"
  touch "$root/complete"
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
mkdir -p "$root/nearkin"
find "$root/nearkin" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar --extract --directory "$root/nearkin"
git clone --quiet --bare . "$root/nearkin/.git"
git --git-dir="$root/nearkin/.git" config core.bare false
git -C "$root/nearkin" reset --quiet
[ "$#" -gt 0 ] || set -- make test
export ROOT="$root"
unshare --mount --propagation slave bash -c '
  mount --rbind /proc "$ROOT/proc" && mount --rbind /sys "$ROOT/sys" && mount --rbind /dev "$ROOT/dev"
  exec chroot "$ROOT" env --chdir=/nearkin "$@"' - "$@"
