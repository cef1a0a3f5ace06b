package services

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend answers every connection with its name.
func backend(t *testing.T, ip, name string) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, name)
			_ = c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func podAt(name, ip string, port int, ready bool) *corev1.Pod {
	v := corev1.ConditionFalse
	if ready {
		v = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port)}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: v}}},
	}
}

func freePort(t *testing.T, ip string) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func ask(addr string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "refused"
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	raw, err := io.ReadAll(c)
	if err != nil {
		return "reset"
	}
	return string(raw)
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-tick.C
	}
}

func TestConnectionsReachReadyPodsOnly(t *testing.T) {
	const clusterIP = "127.111.0.9"
	port := freePort(t, clusterIP)
	a, b := backend(t, "127.112.0.1", "a"), backend(t, "127.112.0.2", "b")
	cs := fake.NewClientset(podAt("a", "127.112.0.1", a, true), podAt("b", "127.112.0.2", b, false), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", UID: "u"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: clusterIP, Selector: map[string]string{"app": "x"},
			Ports: []corev1.ServicePort{{Port: int32(port), TargetPort: intstr.FromString("http")}},
		},
	})
	inf := informers.NewSharedInformerFactory(cs, 0)
	p, err := New(cs, inf, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	inf.Start(ctx.Done())
	inf.WaitForCacheSync(ctx.Done())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { cancel(); <-done; inf.Shutdown() }()

	addr := net.JoinHostPort(clusterIP, strconv.Itoa(port))
	want := func(names ...string) {
		t.Helper()
		eventually(t, func() error {
			got := map[string]bool{}
			for range 6 {
				got[ask(addr)] = true
			}
			for _, n := range names {
				if !got[n] || len(got) != len(names) {
					return fmt.Errorf("answers %v, want %v", got, names)
				}
			}
			return nil
		})
	}
	want("a")
	update := func(o *corev1.Pod) {
		t.Helper()
		if _, err := cs.CoreV1().Pods("n").Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(podAt("b", "127.112.0.2", b, true))
	want("a", "b")
	update(podAt("a", "127.112.0.1", a, false))
	want("b")
	update(podAt("b", "127.112.0.2", b, false))
	want("reset")
	s, err := cs.CoreV1().Services("n").Get(ctx, "s", metav1.GetOptions{})
	if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 || s.Status.LoadBalancer.Ingress[0].IP != clusterIP {
		t.Errorf("load balancer %+v, %v", s.Status, err)
	}
	if err := cs.CoreV1().Services("n").Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("refused")
}

func TestABackendSeesWhoseConnectionItIs(t *testing.T) {
	l, err := net.Listen("tcp", "127.112.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	backend := l.Addr().(*net.TCPAddr)
	inf := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := inf.Core().V1().Pods().Informer().GetStore().Add(podAt("a", "127.112.0.3", backend.Port, true)); err != nil {
		t.Fatal(err)
	}
	p, err := New(nil, inf, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}}}
	from := &port{proxy: p, want: wanted{service, corev1.ServicePort{TargetPort: intstr.FromInt(backend.Port)}}}
	c := from.dial(context.Background(), &net.TCPAddr{IP: net.IPv4(127, 112, 7, 7), Port: 1})
	if c == nil {
		t.Fatal("no connection")
	}
	defer c.Close()
	seen, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	if got := seen.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.112.7.7" {
		t.Errorf("the backend sees %s", got)
	}
}

func TestHeadlessAndUDPAreNotServed(t *testing.T) {
	s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 1}}}}
	if n := len(tcpPorts(s)); n != 0 {
		t.Errorf("headless: %d", n)
	}
	s.Spec.ClusterIP, s.Spec.Ports[0].Protocol = "127.96.0.5", corev1.ProtocolUDP
	if n := len(tcpPorts(s)); n != 0 {
		t.Errorf("UDP: %d", n)
	}
}

func TestPodsOnTheirWayOutGetNoConnections(t *testing.T) {
	o := podAt("a", "127.0.0.1", 1, true)
	if !serves(o, false) {
		t.Error("a ready pod")
	}
	now := metav1.Now()
	o.DeletionTimestamp = &now
	if serves(o, true) {
		t.Error("a pod that is being deleted")
	}
	if !serves(podAt("b", "127.0.0.1", 1, false), true) {
		t.Error("a pod that is not ready, of a Service that wants it")
	}
}
