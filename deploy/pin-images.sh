#!/usr/bin/env bash
# Writes the digest of every base image into deploy/.env, which docker compose reads: from then on the same bytes are used, whatever a
# tag is moved to. Run it again to take over newer ones, and look at the difference before you commit or deploy it.
set -euo pipefail
cd "$(dirname "$0")"

pin() {
  local digest
  digest="$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$2")"
  case "$digest" in
    sha256:*) echo "$1=$2@$digest" ;;
    *) echo "no digest of $2: $digest" >&2; return 1 ;;
  esac
}

written="$(mktemp .env.XXXXXX)"
trap 'rm -f "$written"' EXIT
{
  pin PYTHON_IMAGE python:3.11-slim
  pin REDIS_IMAGE redis:7-alpine
  pin PROMETHEUS_IMAGE prom/prometheus:v3.13.3
  pin GRAFANA_IMAGE grafana/grafana:13.2.3
} > "$written"
mv "$written" .env
trap - EXIT
cat .env
