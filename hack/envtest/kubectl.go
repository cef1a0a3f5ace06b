package envtest

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubectl returns a function that runs kubectl as cfg in a namespace and returns what it printed. The error, if it failed,
// has its words and its exit code.
func Kubectl(t testing.TB, cfg *rest.Config, namespace string) func(args ...string) (string, error) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := findBinaries(t)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfig(cfg, namespace), config); err != nil {
		t.Fatalf("writing a kubeconfig: %v", err)
	}
	return func(args ...string) (string, error) {
		var out, words bytes.Buffer
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl"), append([]string{"--kubeconfig", config}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, &out, &words
		if err := cmd.Run(); err != nil {
			return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(words.String()))
		}
		return out.String(), nil
	}
}

func kubeconfig(cfg *rest.Config, namespace string) clientcmdapi.Config {
	const name = "test"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken, Impersonate: cfg.Impersonate.UserName,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}
}
