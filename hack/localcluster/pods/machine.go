package pods

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeletPort is the port of every machine's own address that Serve should listen on.
const KubeletPort = 10250

// advertised is what a machine claims to have: enough that the scheduler never leaves a pod out, for this is one
// computer that plays several.
func advertised() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
}

// capacity is what the computer really has; containers without limits are told this.
func capacity() corev1.ResourceList {
	c := advertised()
	c[corev1.ResourceCPU] = *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			var kib int64
			if _, err := fmt.Sscanf(strings.TrimSpace(s.Text()), "MemTotal: %d kB", &kib); err == nil {
				c[corev1.ResourceMemory] = *resource.NewQuantity(kib<<10, resource.BinarySI)
				break
			}
		}
	}
	return c
}

// node is a machine as the API shows it.
func node(name, address, version string) *corev1.Node {
	now := metav1.Now()
	condition := func(t corev1.NodeConditionType, s corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: s, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH,
			corev1.LabelTopologyZone: name, "node.kubernetes.io/instance-type": "process",
		}},
		Spec: corev1.NodeSpec{ProviderID: "process://" + name},
		Status: corev1.NodeStatus{
			Capacity: advertised(), Allocatable: advertised(),
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: version, OperatingSystem: "linux", Architecture: runtime.GOARCH, ContainerRuntimeVersion: "process://1",
			},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: KubeletPort}},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
		},
	}
}

// KeepMachine registers a machine and renews its lease until ctx ends. registered is called once it is in the API.
func (r *Runtime) KeepMachine(ctx context.Context, name, version string, registered func()) {
	for ctx.Err() == nil {
		nc, err := vknode.NewNodeController(vknode.NewNaiveNodeProvider(), node(name, r.cfg.Machines[name], version), r.cfg.Client.CoreV1().Nodes(),
			vknode.WithNodeEnableLeaseV1(nodeutil.NodeLeaseV1Client(r.cfg.Client), 0))
		if err != nil {
			r.cfg.Log.Error("machine cannot be registered", "machine", name, "error", err.Error())
			return
		}
		go func() {
			select {
			case <-nc.Ready():
				registered()
			case <-nc.Done():
			}
		}()
		if err := nc.Run(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("machine lost, registering it again", "machine", name, "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
