#!/usr/bin/env bash
# Installs what some tests and examples need besides Python: a browser, servers for the stores of an index, curl, Java for Spark.
# It installs Debian's packages if the user is root; otherwise the tests say what they skip.
set -euo pipefail
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v curl >/dev/null || missing+=(curl)
command -v redis-server >/dev/null || missing+=(redis-server)
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
command -v java >/dev/null || missing+=("$(apt-cache pkgnames openjdk- 2>/dev/null | grep -xE 'openjdk-(17|21)-jre-headless' | sort | head -n 1 || true)")
if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "not installed, so their tests are skipped: ${missing[*]} (sudo apt-get install ${missing[*]})" >&2
  fi
fi
