// Command manifest prints the admission policies for the operator that config/manager installs. It writes
// config/admission/policies.yaml.
package main

import (
	"fmt"
	"os"

	"github.com/spatialcells/spatialcells/controllers/policy"
)

func main() {
	text, err := policy.Manifest(policy.OperatorUser)
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifest:", err)
		os.Exit(1)
	}
	fmt.Printf("%s%s", policy.ManifestHeader, text)
}
