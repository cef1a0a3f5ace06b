#!/usr/bin/env bash
# Regenerates everything that is generated and committed: deepcopy, CRDs, the operator's role, admission policies, protobuf.
# controller-gen comes from the nested module beside this script, so that the product's go.mod stays small.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin="${SPATIALCELLS_CACHE:-$HOME/.cache/spatialcells}/tools"
mkdir -p "$bin"
echo "generate: controller-gen" >&2
(cd hack/tools && go build -o "$bin/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen)
"$bin/controller-gen" object paths=./api/v1alpha1/
"$bin/controller-gen" crd paths=./api/v1alpha1/ output:crd:dir=config/crd/bases
"$bin/controller-gen" rbac:roleName=spatialcells-operator paths=./controllers output:rbac:dir=config/rbac

echo "generate: admission policies" >&2
policies="$(go run ./controllers/policy/manifest)"
printf '%s\n' "$policies" > config/admission/policies.yaml

if [ -d hack/protogen ]; then
  echo "generate: protobuf" >&2
  go -C hack/protogen run . ../../api/wire
fi
