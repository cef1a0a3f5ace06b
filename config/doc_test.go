// Package config_test checks what config/ ships: each manifest is accepted by a real API server, strictly, and each sample
// can be applied and is then as it was declared.
package config_test
