#!/usr/bin/env bash
# Fails when something generated differs from what is committed or staged.
set -euo pipefail
cd "$(dirname "$0")/../.."

generated=(api config/crd config/rbac config/admission)
hack/tools/generate.sh

stale=0
git diff --exit-code --stat -- "${generated[@]}" || stale=1
new="$(git ls-files --others --exclude-standard -- "${generated[@]}")"
if [ -n "$new" ]; then
  echo "not committed:" "$new"
  stale=1
fi
if [ "$stale" != 0 ]; then
  echo "Generated files are not current. They were regenerated just now: look at the difference with" >&2
  echo "  git diff -- ${generated[*]}" >&2
  echo "and commit it together with the change that caused it (make generate does the same)." >&2
  exit 1
fi
echo "generated files are current"
