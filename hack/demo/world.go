package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	readyPatience = 3 * time.Minute
	pollPeriod    = 200 * time.Millisecond
	nodeHTTPPort  = "8081"
	maxWorldFile  = 1 << 20
)

// worldKey names the World of a file.
func worldKey(file string) (client.ObjectKey, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return client.ObjectKey{}, &trouble{cause: fmt.Errorf("reading the World: %w", err), remedy: "name a file with a World in WORLD; config/samples has some"}
	}
	if len(raw) > maxWorldFile {
		return client.ObjectKey{}, fmt.Errorf("reading the World: %s is too large to be one", file)
	}
	for doc := range bytes.SplitSeq(raw, []byte("\n---")) {
		var w v1alpha1.World
		if err := yaml.Unmarshal(doc, &w); err == nil && w.Kind == "World" && w.Name != "" {
			if w.Namespace == "" {
				w.Namespace = metav1.NamespaceDefault
			}
			return client.ObjectKeyFromObject(&w), nil
		}
	}
	return client.ObjectKey{}, &trouble{cause: fmt.Errorf("%s holds no World with a name", file), remedy: "name a file with a World in WORLD; config/samples has some"}
}

// site is the World as the API shows it.
type site struct {
	key client.ObjectKey
	api client.Client
}

func newSite(config *rest.Config, key client.ObjectKey) (*site, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &site{key, api}, nil
}

// awaitReady waits until players can play and says how far it has come.
func (s *site) awaitReady(ctx context.Context, say func(string)) (*v1alpha1.World, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyPatience, fmt.Errorf("not Ready within %v", readyPatience))
	defer cancel()
	said, last := map[string]bool{}, "no answer yet" // numbers go up and down; each line is said once
	for {
		w := &v1alpha1.World{}
		err := s.api.Get(ctx, s.key, w)
		if err == nil {
			last = progressOf(w)
		}
		if !said[last] {
			said[last] = true
			say("World " + s.key.Name + ": " + last)
		}
		if err == nil && meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionReady) {
			return w, nil
		}
		trouble, hopeless := s.podTrouble(ctx)
		if hopeless {
			return nil, fmt.Errorf("the World %s does not get Ready: %s", s.key.Name, trouble)
		}
		if pause(ctx, pollPeriod) != nil {
			return nil, fmt.Errorf("waiting for World %s: %w; last: %s%s", s.key.Name, context.Cause(ctx), last, trouble)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// progressOf is the state of a World in one line.
func progressOf(w *v1alpha1.World) string {
	c := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "waiting for the operator"
	}
	message, _, _ := strings.Cut(c.Message, ". ")
	return fmt.Sprintf("nodes %s, regions %s, %s: %s", w.Status.Nodes.Summary, w.Status.Regions.Summary, c.Reason, message)
}

// tooManyRestarts is when a pod that starts again and again is not waited for any longer.
const tooManyRestarts = 5

// podTrouble names pods that do not run, and says whether they ever will.
func (s *site) podTrouble(ctx context.Context) (text string, hopeless bool) {
	pods := &corev1.PodList{}
	if err := s.api.List(ctx, pods); err != nil {
		return "", false
	}
	var bad []string
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			if c.Ready || c.State.Waiting == nil && c.RestartCount == 0 {
				continue
			}
			reason := "not ready"
			if c.State.Waiting != nil {
				reason = oneLine(c.State.Waiting.Reason + " " + c.State.Waiting.Message)
			}
			bad = append(bad, fmt.Sprintf("%s (%s, %d restarts)", p.Name, reason, c.RestartCount))
			hopeless = hopeless || c.RestartCount >= tooManyRestarts
		}
	}
	if len(bad) == 0 {
		return "", false
	}
	return "; pods in trouble: " + strings.Join(bad, ", "), hopeless
}

// zoneNode is one node as its session Lease shows it.
type zoneNode struct {
	name        string
	incarnation int32
	gateway     string // host:port
}

// http is where the node answers for itself.
func (n zoneNode) http() string { return net.JoinHostPort(n.host(), nodeHTTPPort) }

// host is the address of the node's pod.
func (n zoneNode) host() string {
	host, _, err := net.SplitHostPort(n.gateway)
	if err != nil {
		return ""
	}
	return host
}

func (n zoneNode) session() string { return fmt.Sprintf("%s#%d", n.name, n.incarnation) }

// leases lists the World's Leases of one kind.
func (s *site) leases(ctx context.Context, kind string) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list := &coordinationv1.LeaseList{}
	err := s.api.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingLabels{v1alpha1.LabelWorld: s.key.Name, v1alpha1.LabelLease: kind})
	if err != nil {
		return nil, fmt.Errorf("listing %s leases: %w", kind, err)
	}
	return list.Items, nil
}

// nodes lists the zone nodes by ordinal.
func (s *site) nodes(ctx context.Context, replicas int) ([]zoneNode, error) {
	leases, err := s.leases(ctx, v1alpha1.LeaseKindSession)
	if err != nil {
		return nil, err
	}
	list := make([]zoneNode, replicas)
	for _, l := range leases {
		_, ordinal, err := v1alpha1.ParseNodeName(l.Name)
		if err != nil || ordinal >= replicas {
			continue
		}
		list[ordinal] = zoneNode{name: l.Name, gateway: l.Annotations[v1alpha1.AnnotationGateway]}
		if l.Spec.LeaseTransitions != nil {
			list[ordinal].incarnation = *l.Spec.LeaseTransitions
		}
	}
	for i, n := range list {
		if n.gateway == "" {
			return nil, fmt.Errorf("zone node %d of World %s has no gateway address in its session lease", i, s.key.Name)
		}
	}
	return list, nil
}

// owners lists the session that holds each region, by region index.
func (s *site) owners(ctx context.Context, g torus.Grid) ([]string, error) {
	leases, err := s.leases(ctx, v1alpha1.LeaseKindRegion)
	if err != nil {
		return nil, err
	}
	owners := make([]string, g.Regions())
	for _, l := range leases {
		column, row, err := v1alpha1.ParseRegionLabel(l.Labels[v1alpha1.LabelRegion])
		if err != nil || column >= g.Columns() || row >= g.Rows() {
			return nil, fmt.Errorf("lease %s: label %s is no region of the grid", l.Name, v1alpha1.LabelRegion)
		}
		if l.Spec.HolderIdentity != nil {
			owners[row*g.Columns()+column] = *l.Spec.HolderIdentity
		}
	}
	return owners, nil
}

// key of development tokens; it is in the Secret that the operator makes.
func (s *site) tokenKey(ctx context.Context, w *v1alpha1.World) ([]byte, error) {
	name := w.Spec.Gateway.TokenKeysSecretName
	if name == "" {
		name = w.Name + "-token-keys"
	}
	secret := &corev1.Secret{}
	if err := s.api.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("reading the keys of players' tokens: %w", err)
	}
	for file, content := range secret.Data {
		if strings.HasSuffix(file, ".hs256") {
			return content, nil
		}
	}
	return nil, &trouble{
		cause:  fmt.Errorf("secret %s has no development key (*.hs256), so bots cannot sign in", name),
		remedy: "leave gateway.tokenKeysSecretName out of the demo's World",
	}
}

// remove deletes the World and waits until nothing of it is left.
func (s *site) remove(ctx context.Context) error {
	w := &v1alpha1.World{ObjectMeta: metav1.ObjectMeta{Name: s.key.Name, Namespace: s.key.Namespace}}
	if err := s.api.Delete(ctx, w); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting World %s: %w", s.key.Name, err)
	}
	for {
		if err := s.api.Get(ctx, s.key, w); apierrors.IsNotFound(err) {
			return nil
		}
		if err := pause(ctx, pollPeriod); err != nil {
			return fmt.Errorf("deleting World %s: %w", s.key.Name, err)
		}
	}
}
