#!/usr/bin/env bash
# Writes the digest of each base image into deploy/.env, which docker compose reads. From then on the same images are used, even if
# a tag is moved. Run the script again to update the digests, and review the difference before you commit or deploy it.
set -euo pipefail
cd "$(dirname "$0")"

pin() {
  local variable="$1" image="$2" digest
  digest="$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")"
  case "$digest" in
    sha256:*) echo "$variable=$image@$digest" ;;
    *) echo "cannot read the digest of $image: the answer is '$digest'; check the name of the image" >&2; return 1 ;;
  esac
}

new_file="$(mktemp .env.XXXXXX)"
trap 'rm -f "$new_file"' EXIT
{
  pin PYTHON_IMAGE python:3.13-slim
  pin REDIS_IMAGE redis:8-alpine
  pin PROMETHEUS_IMAGE prom/prometheus:v3.13.3
  pin GRAFANA_IMAGE grafana/grafana:13.2.3
} > "$new_file"
mv "$new_file" .env
trap - EXIT
cat .env
