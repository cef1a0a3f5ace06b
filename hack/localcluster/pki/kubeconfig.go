package pki

import (
	"encoding/base64"
	"fmt"
	"os"
)

// Kubeconfig issues a client certificate for the subject and writes a kubeconfig with everything inside to file.
func (a *Authority) Kubeconfig(file, server string, s Subject) error {
	pair, err := a.Issue("client-"+s.Name, s)
	if err != nil {
		return err
	}
	var parts [3]string
	for i, f := range []string{a.CAFile(), pair.CertFile, pair.KeyFile} {
		raw, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("reading %s: %w", f, err)
		}
		parts[i] = base64.StdEncoding.EncodeToString(raw)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: local
contexts:
- name: local
  context: {cluster: local, user: %[1]q}
clusters:
- name: local
  cluster: {server: %[2]q, certificate-authority-data: %[3]s}
users:
- name: %[1]q
  user: {client-certificate-data: %[4]s, client-key-data: %[5]s}
`, s.Name, server, parts[0], parts[1], parts[2])
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.Rename(file+".new", file)
}
