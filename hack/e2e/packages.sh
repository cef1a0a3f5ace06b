#!/usr/bin/env bash
# Installs what a scenario needs and is missing, on Debian, as root: packages.sh PROGRAM:PACKAGE ...
set -euo pipefail

missing=()
for need in "$@"; do
  command -v "${need%%:*}" >/dev/null || missing+=("${need#*:}")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "install ${missing[*]}, or run this as root on Debian" >&2
  exit 1
fi
apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
