package localcluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
	"github.com/spatialcells/spatialcells/hack/localcluster/pki"
)

// controllers are those that the product and its tests need. Endpoints and EndpointSlices refuse loopback addresses,
// so their controllers would retry for ever.
var controllers = []string{
	"clusterrole-aggregation-controller", "cronjob-controller", "daemonset-controller", "deployment-controller",
	"disruption-controller", "garbage-collector-controller", "job-controller", "namespace-controller",
	"node-lifecycle-controller", "persistentvolume-binder-controller", "persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller", "pod-garbage-collector-controller", "replicaset-controller",
	"resourcequota-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller",
	"serviceaccount-token-controller", "statefulset-controller", "taint-eviction-controller",
	"ttl-after-finished-controller", "validatingadmissionpolicy-status-controller",
}

const runtimeUser = "local-kubelet"

// plan is everything the control plane's processes are told.
type plan struct {
	dir, binaries    string
	lane             *lane
	apiPort          int
	etcdPort, peers  int
	ca               *pki.Authority
	serving, toNodes pki.Pair
	etcd, toEtcd     pki.Pair
	accounts         pki.Pair
	audit            bool
}

func (p *plan) server() string { return fmt.Sprintf("https://127.0.0.1:%d", p.apiPort) }

func (p *plan) kubeconfig(name string) string { return filepath.Join(p.dir, "pki", name+".kubeconfig") }

// issue makes all certificates and kubeconfigs.
func (p *plan) issue(machines int) error {
	var err error
	if p.ca, err = pki.Open(filepath.Join(p.dir, "pki")); err != nil {
		return err
	}
	if p.accounts, err = p.ca.ServiceAccountKey(); err != nil {
		return err
	}
	local := []net.IP{net.IPv4(127, 0, 0, 1), p.lane.firstService()}
	hosts := local[:1:1]
	for i := range machines {
		hosts = append(hosts, net.ParseIP(p.lane.machine(i)))
	}
	for _, x := range []struct {
		into *pki.Pair
		name string
		s    pki.Subject
	}{
		{&p.serving, "apiserver", pki.Subject{Name: "kube-apiserver", IPs: local, DNS: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}}},
		{&p.toNodes, "apiserver-to-kubelet", pki.Subject{Name: "kube-apiserver-kubelet-client"}},
		{&p.etcd, "etcd", pki.Subject{Name: "etcd", IPs: local[:1], DNS: []string{"localhost"}}},
		{&p.toEtcd, "apiserver-to-etcd", pki.Subject{Name: "kube-apiserver-etcd-client"}},
		{new(pki.Pair), "kubelet", pki.Subject{Name: "kubelet", IPs: hosts}},
	} {
		if *x.into, err = p.ca.Issue(x.name, x.s); err != nil {
			return err
		}
	}
	for name, s := range map[string]pki.Subject{
		"controller-manager": {Name: "system:kube-controller-manager"},
		"scheduler":          {Name: "system:kube-scheduler"},
		"runtime":            {Name: runtimeUser},
	} {
		if err := p.ca.Kubeconfig(p.kubeconfig(name), p.server(), s); err != nil {
			return err
		}
	}
	return p.ca.Kubeconfig(filepath.Join(p.dir, "kubeconfig"), p.server(), pki.Subject{Name: "admin", Groups: []string{"system:masters"}})
}

func (p *plan) spec(name string, grace time.Duration, args ...string) child.Spec {
	return child.Spec{
		Name: name, Binary: filepath.Join(p.binaries, name), Args: args,
		LogFile: filepath.Join(p.dir, "logs", name+".log"), Grace: grace,
	}
}

func (p *plan) etcdSpec() child.Spec {
	client, peer := fmt.Sprintf("https://127.0.0.1:%d", p.etcdPort), fmt.Sprintf("https://127.0.0.1:%d", p.peers)
	return p.spec("etcd", 3*time.Second,
		"--name=local", "--data-dir="+filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=local="+peer,
		"--cert-file="+p.etcd.CertFile, "--key-file="+p.etcd.KeyFile, "--client-cert-auth", "--trusted-ca-file="+p.ca.CAFile(),
		"--peer-cert-file="+p.etcd.CertFile, "--peer-key-file="+p.etcd.KeyFile, "--peer-client-cert-auth", "--peer-trusted-ca-file="+p.ca.CAFile(),
	)
}

func (p *plan) apiserverSpec() child.Spec {
	args := []string{
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", p.etcdPort),
		"--etcd-cafile=" + p.ca.CAFile(), "--etcd-certfile=" + p.toEtcd.CertFile, "--etcd-keyfile=" + p.toEtcd.KeyFile,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.apiPort),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=" + p.lane.serviceRange(),
		"--tls-cert-file=" + p.serving.CertFile, "--tls-private-key-file=" + p.serving.KeyFile, "--client-ca-file=" + p.ca.CAFile(),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + p.accounts.CertFile,
		"--service-account-signing-key-file=" + p.accounts.KeyFile, "--service-account-extend-token-expiration=false",
		"--authorization-mode=RBAC", "--allow-privileged", "--profiling=false", "--v=0",
		"--kubelet-client-certificate=" + p.toNodes.CertFile, "--kubelet-client-key=" + p.toNodes.KeyFile,
		"--kubelet-certificate-authority=" + p.ca.CAFile(), "--kubelet-preferred-address-types=InternalIP",
	}
	if p.audit {
		args = append(args, "--audit-policy-file="+p.auditPolicy(), "--audit-log-path="+auditLog(p.dir), "--audit-log-maxsize=2000")
	}
	return p.spec("kube-apiserver", 2*time.Second, args...)
}

// leaseWrites is what an audited cluster records: who wrote what into which Lease, and when.
const leaseWrites = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: None
`

func (p *plan) auditPolicy() string { return filepath.Join(p.dir, "pki", "audit-policy.yaml") }

func auditLog(dir string) string { return filepath.Join(dir, "logs", "audit.log") }

// writeAuditPolicy makes the file that the API server is told of; what an earlier cluster recorded goes.
func (p *plan) writeAuditPolicy() error {
	if !p.audit {
		return nil
	}
	if err := errors.Join(os.RemoveAll(auditLog(p.dir)), os.WriteFile(p.auditPolicy(), []byte(leaseWrites), 0o600)); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

func (p *plan) controllerManagerSpec() child.Spec {
	ca := p.ca.CAPair()
	return p.spec("kube-controller-manager", 2*time.Second,
		"--kubeconfig="+p.kubeconfig("controller-manager"), "--controllers="+strings.Join(controllers, ","),
		"--service-account-private-key-file="+p.accounts.KeyFile, "--root-ca-file="+p.ca.CAFile(),
		"--cluster-signing-cert-file="+ca.CertFile, "--cluster-signing-key-file="+ca.KeyFile,
		"--use-service-account-credentials", "--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1",
		"--allocate-node-cidrs=false", "--node-monitor-grace-period=40s", "--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false", "--v=0",
	)
}

func (p *plan) schedulerSpec() child.Spec {
	return p.spec("kube-scheduler", 2*time.Second,
		"--kubeconfig="+p.kubeconfig("scheduler"), "--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1",
		"--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false", "--v=0",
	)
}

// lastLines returns the end of a log, for an error message.
func lastLines(file string) string {
	const window = 2 << 10
	f, err := os.Open(file)
	if err != nil {
		return "(no log)"
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > window {
		_, _ = f.Seek(-window, 2)
	}
	raw := make([]byte, window)
	n, _ := f.Read(raw)
	lines := strings.Split(strings.TrimSpace(string(raw[:n])), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}
