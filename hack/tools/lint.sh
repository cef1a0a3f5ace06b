#!/usr/bin/env bash
# Builds golangci-lint once (some minutes) from the module in hack/tools/lint, and runs it.
#   hack/tools/lint.sh [package or flag ...]     default: ./...
#   hack/tools/lint.sh fmt                       formats instead
set -euo pipefail
cd "$(dirname "$0")/../.."

version="$(sed -n 's/^\s*github.com\/golangci\/golangci-lint\/v2 \(v[^ ]*\).*/\1/p' hack/tools/lint/go.mod)"
go_version="$(go env GOVERSION)"
bin="${SPATIALCELLS_CACHE:-$HOME/.cache/spatialcells}/tools/golangci-lint-$version-$go_version"
if [ ! -x "$bin" ]; then
  echo "lint: building golangci-lint $version once; this takes some minutes" >&2
  mkdir -p "$(dirname "$bin")"
  # Built beside its place and moved, so that an interrupted or a second build leaves no half binary.
  partial="$bin.$$"
  trap 'rm -f "$partial"' EXIT
  (cd hack/tools/lint && go build -trimpath -ldflags '-s -w' -o "$partial" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
  mv "$partial" "$bin"
fi

if [ "${1:-}" = fmt ]; then
  shift
  exec "$bin" fmt "$@"
fi
exec "$bin" run "${@:-./...}"
