package localcluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const image = "example/echo:v1"

// world is the cluster that the tests of this file share: they are steps of one story.
type world struct {
	*testing.T
	c  *Cluster
	cs kubernetes.Interface
}

func TestCluster(t *testing.T) {
	SilenceClients()
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	began := time.Now()
	c, err := Up(ctx, Options{Dir: dir, Machines: 2, Images: map[string]string{image: buildEcho(t)}, Progress: func(l string) { t.Log(l) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %v", time.Since(began))
	t.Cleanup(func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
		if left := marked(dir); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
	})
	w := world{t, c, kubernetes.NewForConfigOrDie(c.Config())}
	w.createEcho(ctx)
	for _, step := range []struct {
		name string
		run  func(world, context.Context)
	}{
		{"two pods of a StatefulSet run on two machines", world.podsRun},
		{"kubectl logs, exec and port-forward work", world.kubectl},
		{"readiness follows the probe and the Service follows readiness", world.readiness},
		{"a ConfigMap volume is kept current", world.configMapFollows},
		{"the token is bound to the pod and accepted", world.boundToken},
		{"kill -9 restarts the container in the same pod", world.killRestarts},
		{"deleting a pod ends its process with grace and makes a new uid", world.deleteReplaces},
		{"pods go on while the API server is away", world.outage},
		{"a second container is refused in words", world.refusesMore},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(world{t, c, w.cs}, ctx) }) {
			w.dump()
			return
		}
	}
}

func buildEcho(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "echo")
	out, err := exec.Command("go", "build", "-o", bin, "./testdata/echo").CombinedOutput()
	if err != nil {
		t.Fatalf("building the image: %v\n%s", err, out)
	}
	return bin
}

func (w world) dump() {
	for _, f := range []string{"runtime.log", "kube-apiserver.log", "kube-scheduler.log"} {
		w.Logf("%s: %s", f, lastLines(filepath.Join(w.c.LogDir(), f)))
	}
	out, _ := exec.Command(w.c.Kubectl(), "--kubeconfig", w.c.Kubeconfig(), "get", "pods,events", "-A", "-o", "wide").CombinedOutput()
	w.Logf("%s", out)
}

// must polls until f returns nil.
func (w world) must(ctx context.Context, f func() error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := poll(ctx, func(context.Context) error { return f() }); err != nil {
		w.Fatal(err)
	}
}

func (w world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) createEcho(ctx context.Context) {
	w.Helper()
	core := w.cs.CoreV1()
	_, err := core.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "echo"}, Data: map[string]string{"greeting": "hi"},
	}, metav1.CreateOptions{})
	w.ok(err)
	labels := map[string]string{"app": "echo"}
	_, err = core.Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "echo"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromString("http")}}},
	}, metav1.CreateOptions{})
	w.ok(err)
	_, err = w.cs.AppsV1().StatefulSets("default").Create(ctx, echoSet(labels), metav1.CreateOptions{})
	w.ok(err)
}

func echoSet(labels map[string]string) *appsv1.StatefulSet {
	two, grace := int32(2), int64(6)
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("http")}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "echo"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &two, ServiceName: "echo", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
					Containers: []corev1.Container{{
						Name: "echo", Image: image, Args: []string{"/data"},
						Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
						Env: []corev1.EnvVar{
							field("POD_NAME", "metadata.name"),
							{Name: "GREETING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "echo"}, Key: "greeting"}}},
						},
						ReadinessProbe: &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 1, FailureThreshold: 1},
						LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}, PeriodSeconds: 2, FailureThreshold: 10},
						StartupProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-d", "/data"}}}, PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 30},
						VolumeMounts:   []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "conf", MountPath: "/etc/echo"}},
					}},
					Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "echo"}}}}},
				},
			},
		},
	}
}

func (w world) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return w.cs.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (w world) awaitReady(ctx context.Context, name string, want bool) *corev1.Pod {
	w.Helper()
	var p *corev1.Pod
	w.must(ctx, func() error {
		var err error
		if p, err = w.pod(ctx, name); err == nil && isReady(p) != want {
			err = fmt.Errorf("pod %s: ready is %v", name, !want)
		}
		return err
	})
	return p
}

func (w world) podsRun(ctx context.Context) {
	a, b := w.awaitReady(ctx, "echo-0", true), w.awaitReady(ctx, "echo-1", true)
	if a.Spec.NodeName == b.Spec.NodeName {
		w.Errorf("both on %s", a.Spec.NodeName)
	}
	if a.Status.PodIP == b.Status.PodIP || !strings.HasPrefix(a.Status.PodIP, "127.") {
		w.Errorf("addresses %s and %s", a.Status.PodIP, b.Status.PodIP)
	}
}

func (w world) kubectlRun(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, w.c.Kubectl(), append([]string{"--kubeconfig", w.c.Kubeconfig()}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (w world) kubectl(ctx context.Context) {
	out, err := w.kubectlRun(ctx, "logs", "echo-0")
	if err != nil || out != "hello from echo-0 greeting hi\n" {
		w.Errorf("logs: %q, %v", out, err)
	}
	out, err = w.kubectlRun(ctx, "exec", "echo-1", "--", "sh", "-c", "echo $POD_NAME $LISTEN_HOST; exit 7")
	p, perr := w.pod(ctx, "echo-1")
	w.ok(perr)
	if !strings.Contains(out, "echo-1 "+p.Status.PodIP+"\n") || !strings.Contains(out, "exit code 7") || err == nil {
		w.Errorf("exec: %q, %v", out, err)
	}
	w.portForward(ctx)
}

func (w world) portForward(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.c.Kubectl(), "--kubeconfig", w.c.Kubeconfig(), "port-forward", "pod/echo-0", ":8080")
	out, err := cmd.StdoutPipe()
	w.ok(err)
	w.ok(cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }()
	line := make([]byte, 256)
	n, err := out.Read(line)
	w.ok(err)
	var port int
	if _, err := fmt.Sscanf(string(line[:n]), "Forwarding from 127.0.0.1:%d", &port); err != nil {
		w.Fatalf("port-forward says %q", line[:n])
	}
	if got := get(fmt.Sprintf("http://127.0.0.1:%d/", port)); got != "echo-0" {
		w.Errorf("through port-forward: %q", got)
	}
}

func get(url string) string {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return string(raw)
}

// answers asks the Service several times and returns who answered.
func (w world) answers(ctx context.Context) map[string]bool {
	s, err := w.cs.CoreV1().Services("default").Get(ctx, "echo", metav1.GetOptions{})
	w.ok(err)
	who := map[string]bool{}
	for range 4 {
		who[get("http://"+s.Spec.ClusterIP+":8080/")] = true
	}
	return who
}

func (w world) awaitAnswers(ctx context.Context, want ...string) {
	w.Helper()
	w.must(ctx, func() error {
		got := w.answers(ctx)
		for _, x := range want {
			if !got[x] || len(got) != len(want) {
				return fmt.Errorf("answers from %v, want %v", got, want)
			}
		}
		return nil
	})
}

func (w world) readiness(ctx context.Context) {
	w.awaitAnswers(ctx, "echo-0", "echo-1")
	_, err := w.kubectlRun(ctx, "exec", "echo-0", "--", "touch", "/data/unready")
	w.ok(err)
	w.awaitReady(ctx, "echo-0", false)
	w.awaitAnswers(ctx, "echo-1")
	_, err = w.kubectlRun(ctx, "exec", "echo-0", "--", "rm", "/data/unready")
	w.ok(err)
	w.awaitReady(ctx, "echo-0", true)
	w.awaitAnswers(ctx, "echo-0", "echo-1")
}

func (w world) configMapFollows(ctx context.Context) {
	cm, err := w.cs.CoreV1().ConfigMaps("default").Get(ctx, "echo", metav1.GetOptions{})
	w.ok(err)
	cm.Data["greeting"] = "good day"
	_, err = w.cs.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{})
	w.ok(err)
	w.must(ctx, func() error {
		out, err := w.kubectlRun(ctx, "exec", "echo-0", "--", "cat", "/etc/echo/greeting")
		if err == nil && out != "good day" {
			err = fmt.Errorf("the file says %q", out)
		}
		return err
	})
}

func (w world) boundToken(ctx context.Context) {
	p, err := w.pod(ctx, "echo-0")
	w.ok(err)
	conf, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.c.opts.Dir, "pods", string(p.UID), "kubeconfig"))
	w.ok(err)
	cs, err := kubernetes.NewForConfig(conf)
	w.ok(err)
	out, err := cs.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authv1.SelfSubjectReview{}, metav1.CreateOptions{})
	w.ok(err)
	extra := out.Status.UserInfo.Extra
	if out.Status.UserInfo.Username != "system:serviceaccount:default:default" ||
		fmt.Sprint(extra["authentication.kubernetes.io/pod-name"]) != "[echo-0]" ||
		fmt.Sprint(extra["authentication.kubernetes.io/pod-uid"]) != "["+string(p.UID)+"]" {
		w.Errorf("the token says %s %v", out.Status.UserInfo.Username, extra)
	}
}
