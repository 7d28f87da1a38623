#!/usr/bin/env bash
# Creates .venv, or the folder $ENVIRONMENT; on a Debian machine without the venv module it installs that package first.
set -euo pipefail
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "nearkin needs Python 3.11 or newer; $python is $("$python" --version). Try: make PYTHON=python3.11" >&2
  exit 2
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq "$package" >/dev/null
  else
    echo "Python's venv module is missing; install it: sudo apt-get install $package" >&2
    exit 2
  fi
fi
folder="${ENVIRONMENT:-.venv}"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
