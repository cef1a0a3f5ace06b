// Package services gives every ClusterIP a TCP proxy, in place of kube-proxy.
//
// Service addresses are loopback addresses, so each port of each Service is a listener of this process. A new
// connection goes to the next Ready pod that the Service selects, read from the pods themselves: EndpointSlices cannot
// hold loopback addresses. Without a backend the connection is reset, as kube-proxy's rules reject it. UDP, session
// affinity and node ports are not served.
//
// Every listener and connection ends with the context of Run. It may import the Kubernetes client libraries only.
package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	maxConnections = 4096            // per port of a Service; more wait in the kernel's queue
	dialTimeout    = 3 * time.Second // to a backend
)

// Proxy forwards the connections of all Services of a cluster.
type Proxy struct {
	client   kubernetes.Interface
	services corelisters.ServiceLister
	pods     corelisters.PodLister
	log      *slog.Logger
	changed  chan struct{}
	fixed    map[string]string // "namespace/name" of a Service without selector -> its backend's host:port

	ports map[string]*port // by "ip:port"; only touched by Run
	wg    sync.WaitGroup
}

// New registers a Proxy with the informers; Run serves. fixed names backends of Services that select no pods.
func New(client kubernetes.Interface, inf informers.SharedInformerFactory, fixed map[string]string, log *slog.Logger) (*Proxy, error) {
	core := inf.Core().V1()
	p := &Proxy{
		client: client, services: core.Services().Lister(), pods: core.Pods().Lister(), log: log, fixed: fixed,
		changed: make(chan struct{}, 1), ports: map[string]*port{},
	}
	touch := func(any) {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	_, err := core.Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: touch, UpdateFunc: func(_, o any) { touch(o) }, DeleteFunc: touch,
	})
	if err != nil {
		return nil, fmt.Errorf("watching services: %w", err)
	}
	return p, nil
}

// Run serves until ctx ends and every connection is closed.
func (p *Proxy) Run(ctx context.Context) {
	retry := time.NewTicker(5 * time.Second) // a port that was taken may be free by now
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, l := range p.ports {
				l.close()
			}
			p.wg.Wait()
			return
		case <-p.changed:
		case <-retry.C:
		}
		p.sync(ctx)
	}
}

// wanted is one port of one Service.
type wanted struct {
	service *corev1.Service
	port    corev1.ServicePort
}

func (p *Proxy) sync(ctx context.Context) {
	all, err := p.services.List(labels.Everything())
	if err != nil {
		return
	}
	want := map[string]wanted{}
	for _, s := range all {
		for _, sp := range tcpPorts(s) {
			want[net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(sp.Port)))] = wanted{s, sp}
		}
		p.balance(ctx, s)
	}
	for addr, l := range p.ports {
		if w, ok := want[addr]; !ok || w.service.UID != l.uid {
			l.close()
			delete(p.ports, addr)
		}
	}
	for addr, w := range want {
		if l := p.ports[addr]; l != nil {
			l.set(w)
			continue
		}
		p.open(ctx, addr, w)
	}
}

// tcpPorts lists what of a Service is to be proxied.
func tcpPorts(s *corev1.Service) []corev1.ServicePort {
	ip := s.Spec.ClusterIP
	if ip == "" || ip == corev1.ClusterIPNone || s.DeletionTimestamp != nil {
		return nil
	}
	var tcp []corev1.ServicePort
	for _, sp := range s.Spec.Ports {
		if sp.Protocol == corev1.ProtocolTCP || sp.Protocol == "" {
			tcp = append(tcp, sp)
		}
	}
	return tcp
}

// balance plays the cloud: the address of a LoadBalancer is the ClusterIP, which this computer can reach.
func (p *Proxy) balance(ctx context.Context, s *corev1.Service) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 || s.Spec.ClusterIP == "" {
		return
	}
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: s.Spec.ClusterIP}}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := p.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
		p.log.Debug("load balancer's address not taken yet", "service", s.Name, "error", err.Error())
	}
}

func (p *Proxy) open(ctx context.Context, addr string, w wanted) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EACCES) {
		p.log.Debug("service port below 1024 needs root; reach the pods by another port", "service", w.service.Name, "address", addr)
		return
	}
	if err != nil {
		p.log.Warn("service port not served", "service", w.service.Namespace+"/"+w.service.Name, "error", err.Error())
		return
	}
	l := &port{proxy: p, uid: w.service.UID, listener: ln, slots: make(chan struct{}, maxConnections), open: map[net.Conn]bool{}}
	l.set(w)
	p.ports[addr] = l
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		l.serve(ctx)
	}()
}

// backends lists "host:port" of the pods that may get a connection, in a stable order.
func (p *Proxy) backends(w wanted) []string {
	s := w.service
	if b, ok := p.fixed[s.Namespace+"/"+s.Name]; ok {
		return []string{b}
	}
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	pods, err := p.pods.Pods(s.Namespace).List(labels.SelectorFromSet(s.Spec.Selector))
	if err != nil {
		return nil
	}
	var addrs []string
	for _, o := range pods {
		if !serves(o, s.Spec.PublishNotReadyAddresses) {
			continue
		}
		if n := targetPort(w.port, o); n > 0 {
			addrs = append(addrs, net.JoinHostPort(o.Status.PodIP, strconv.Itoa(n)))
		}
	}
	slices.Sort(addrs)
	return addrs
}

func serves(o *corev1.Pod, notReadyToo bool) bool {
	if o.DeletionTimestamp != nil || o.Status.PodIP == "" || o.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return notReadyToo
}

func targetPort(sp corev1.ServicePort, o *corev1.Pod) int {
	switch {
	case sp.TargetPort.Type == intstr.String:
		for i := range o.Spec.Containers {
			for _, cp := range o.Spec.Containers[i].Ports {
				if cp.Name == sp.TargetPort.StrVal {
					return int(cp.ContainerPort)
				}
			}
		}
		return 0
	case sp.TargetPort.IntVal != 0:
		return int(sp.TargetPort.IntVal)
	}
	return int(sp.Port)
}

// pipe copies both ways until both are done; io.Copy between sockets stays in the kernel.
func pipe(a, b net.Conn) {
	done := make(chan struct{})
	half := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if t, ok := to.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	}
	go func() {
		defer close(done)
		half(a, b)
	}()
	half(b, a)
	<-done
}
