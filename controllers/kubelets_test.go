package controllers_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

// kubelets stand in for the StatefulSet controller, the kubelets and the zone nodes of a namespace. The nodes write their
// Leases under the identity that a bound token would give them, as the real ones do, so the admission policies see them.
type kubelets struct {
	b    *bench
	stop chan struct{}
	done chan struct{}

	leases *ledger

	mu     sync.Mutex
	nodes  map[string]*zoneNode
	halted bool // no pod is made or ended
	deaf   bool // regions that are ordered away stay
}

// moveTime is how long a node takes to give a region to another.
const moveTime = 200 * time.Millisecond

// zoneNode is one process. Its goroutine ends with the pod.
type zoneNode struct {
	client client.Client
	pod    *corev1.Pod
	world  string
	end    chan struct{}

	mu          sync.Mutex
	frozen      bool // makes no progress, renews nothing
	deaf        bool // gives no region away
	incarnation int32
	renewed     time.Time
}

func (n *zoneNode) run(b *bench) {
	for {
		select {
		case <-n.end:
			return
		case <-time.After(100 * time.Millisecond):
			n.mu.Lock()
			if !n.frozen {
				n.live(context.Background(), b)
			}
			n.mu.Unlock()
		}
	}
}

func startKubelets(b *bench) *kubelets {
	k := &kubelets{b: b, stop: make(chan struct{}), done: make(chan struct{}), nodes: map[string]*zoneNode{}, leases: startLedger(b)}
	go func() {
		defer close(k.done)
		for {
			select {
			case <-k.stop:
				return
			case <-time.After(100 * time.Millisecond):
				k.step()
			}
		}
	}()
	b.Cleanup(func() {
		close(k.stop)
		<-k.done
		for _, node := range k.nodes {
			close(node.end)
		}
	})
	return k
}

func (k *kubelets) step() {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx := context.Background()
	if !k.halted {
		sets := &appsv1.StatefulSetList{}
		if err := k.b.client.List(ctx, sets, client.InNamespace(k.b.ns)); err == nil {
			for i := range sets.Items {
				k.scale(ctx, &sets.Items[i])
			}
		}
	}
}

// scale makes and ends pods as the StatefulSet says.
func (k *kubelets) scale(ctx context.Context, set *appsv1.StatefulSet) {
	revision := revisionOf(set)
	if set.Status.UpdateRevision != revision || set.Status.ObservedGeneration != set.Generation {
		set.Status.UpdateRevision, set.Status.ObservedGeneration = revision, set.Generation
		if k.b.client.Status().Update(ctx, set) != nil {
			return
		}
	}
	pods := &corev1.PodList{}
	if k.b.client.List(ctx, pods, client.InNamespace(k.b.ns), client.MatchingLabels(set.Spec.Selector.MatchLabels)) != nil {
		return
	}
	have := map[string]*corev1.Pod{}
	for i := range pods.Items {
		have[pods.Items[i].Name] = &pods.Items[i]
	}
	for ordinal := range *set.Spec.Replicas {
		name := fmt.Sprintf("%s-%d", set.Name, ordinal)
		if have[name] == nil {
			k.makePod(ctx, set, name, ordinal, revision)
		}
		delete(have, name)
	}
	for _, pod := range have {
		k.end(ctx, pod)
	}
}

func revisionOf(set *appsv1.StatefulSet) string {
	raw, err := set.Spec.Template.Marshal()
	if err != nil {
		panic(err)
	}
	hash := fnv.New32a()
	hash.Write(raw)
	return fmt.Sprintf("%s-%x", set.Name, hash.Sum32())
}

func (k *kubelets) makePod(ctx context.Context, set *appsv1.StatefulSet, name string, ordinal int32, revision string) {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = name, set.Namespace
	pod.Labels["controller-revision-hash"] = revision
	pod.Labels["apps.kubernetes.io/pod-index"] = fmt.Sprint(ordinal)
	for _, claim := range set.Spec.VolumeClaimTemplates {
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + name}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}})
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	if k.b.client.Create(ctx, pod) != nil {
		return
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Ready: true, Image: "x", ImageID: "x",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	if err := k.b.client.Status().Update(ctx, pod); err != nil {
		k.b.Errorf("reporting pod %s: %v", name, err)
		return
	}
	if world, _, err := v1alpha1.ParseNodeName(name); err == nil {
		k.nodes[name] = &zoneNode{pod: pod, world: world, client: nodeClient(k.b, pod), end: make(chan struct{}), deaf: k.deaf}
		go k.nodes[name].run(k.b)
	}
}

// nodeClient acts as the pod's bound token would.
func nodeClient(b *bench, pod *corev1.Pod) client.Client {
	cfg := rest.CopyConfig(b.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace, "system:authenticated"},
		Extra: map[string][]string{
			"authentication.kubernetes.io/pod-name": {pod.Name},
			"authentication.kubernetes.io/pod-uid":  {string(pod.UID)},
		},
	}
	return envtest.Client(b, cfg)
}

// end lets a node save and release, then removes its pod.
func (k *kubelets) end(ctx context.Context, pod *corev1.Pod) {
	if node := k.nodes[pod.Name]; node != nil {
		close(node.end)
		node.mu.Lock()
		if !node.frozen {
			node.release(ctx, k.b)
		}
		node.mu.Unlock()
	}
	delete(k.nodes, pod.Name)
	_ = client.IgnoreNotFound(k.b.client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
}

// live is one turn of a zone node: take or renew the session, then do what the region Leases order.
func (n *zoneNode) live(ctx context.Context, b *bench) {
	if n.incarnation != 0 && time.Since(n.renewed) < time.Second {
		n.obey(ctx, b)
		return
	}
	lease := &coordinationv1.Lease{}
	if n.client.Get(ctx, b.key(n.pod.Name), lease) != nil {
		return
	}
	me := v1alpha1.HolderIdentity(n.pod.Name, string(n.pod.UID))
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	switch {
	case n.incarnation != 0 && (holder != me || *lease.Spec.LeaseTransitions != n.incarnation):
		n.incarnation = 0 // somebody ended this session: the process exits, the next life starts
		return
	case holder != "" && holder != me:
		return
	default:
		n.renew(ctx, lease, me)
	}
	if n.incarnation != 0 {
		n.obey(ctx, b)
	}
}

func (n *zoneNode) renew(ctx context.Context, lease *coordinationv1.Lease, me string) {
	now := metav1.NowMicro()
	next := n.incarnation
	if next == 0 {
		next = *lease.Spec.LeaseTransitions + 1
		lease.Spec.LeaseTransitions, lease.Spec.HolderIdentity, lease.Spec.AcquireTime = &next, &me, &now
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationAddress, "127.0.0.1:7777")
	}
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, new(int32(1))
	if n.client.Update(ctx, lease) == nil {
		n.incarnation, n.renewed = next, now.Time
	}
}

// obey takes the regions that are free and ordered here, and gives those away that are ordered elsewhere, each by one write.
func (n *zoneNode) obey(ctx context.Context, b *bench) {
	_, ordinal, err := v1alpha1.ParseNodeName(n.pod.Name)
	if err != nil {
		panic(err)
	}
	mine := v1alpha1.SessionID(n.world, ordinal, n.incarnation)
	for _, task := range b.nodes.leases.of(n.pod.Name) {
		heir := mine
		if holder := *task.lease.Spec.HolderIdentity; holder != "" {
			if holder != mine || n.deaf || time.Since(task.since) < moveTime {
				continue
			}
			if heir = n.sessionOf(ctx, b, task.lease.Annotations[v1alpha1.AnnotationTarget]); heir == "" {
				continue
			}
		}
		task.lease.Spec.HolderIdentity = &heir
		task.lease.Spec.LeaseTransitions = new(*task.lease.Spec.LeaseTransitions + 1)
		task.lease.Spec.AcquireTime = new(metav1.NowMicro())
		_ = n.client.Update(ctx, task.lease) // a conflict: the order changed
	}
}

// sessionOf is the session that another node has, "" if it has none.
func (n *zoneNode) sessionOf(ctx context.Context, b *bench, node string) string {
	_, ordinal, err := v1alpha1.ParseNodeName(node)
	lease := &coordinationv1.Lease{}
	if err != nil || n.client.Get(ctx, b.key(node), lease) != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return ""
	}
	return v1alpha1.SessionID(n.world, ordinal, *lease.Spec.LeaseTransitions)
}

func (n *zoneNode) release(ctx context.Context, b *bench) {
	if n.incarnation == 0 {
		return
	}
	_, ordinal, _ := v1alpha1.ParseNodeName(n.pod.Name)
	mine := v1alpha1.SessionID(n.world, ordinal, n.incarnation)
	for _, lease := range b.regions() {
		if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == mine {
			lease.Spec.HolderIdentity = new("")
			_ = n.client.Update(ctx, &lease)
		}
	}
	lease := &coordinationv1.Lease{}
	if n.client.Get(ctx, b.key(n.pod.Name), lease) == nil {
		lease.Spec.HolderIdentity = new("")
		lease.Spec.RenewTime = new(metav1.NowMicro())
		_ = n.client.Update(ctx, lease)
	}
	n.incarnation = 0
}

// freeze stops a node without anybody being told, as SIGSTOP would, and returns when it last renewed.
func (k *kubelets) freeze(pod string) time.Time {
	node := k.node(pod)
	node.mu.Lock()
	defer node.mu.Unlock()
	node.frozen = true
	return node.renewed
}

// thaw lets a frozen node go on. It finds out by itself what became of its session.
func (k *kubelets) thaw(pod string) {
	node := k.node(pod)
	node.mu.Lock()
	defer node.mu.Unlock()
	node.frozen = false
}

// deafen lets nodes ignore that regions are ordered away, as if no move could be finished, or ends that.
func (k *kubelets) deafen(deaf bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deaf = deaf
	for _, node := range k.nodes {
		node.mu.Lock()
		node.deaf = deaf
		node.mu.Unlock()
	}
}

func (k *kubelets) node(pod string) *zoneNode {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[pod]
}

// halt stops the making and ending of pods; the nodes live on.
func (k *kubelets) halt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.halted = true
}
