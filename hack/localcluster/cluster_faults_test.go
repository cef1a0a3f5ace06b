package localcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w world) killRestarts(ctx context.Context) {
	before := w.awaitReady(ctx, "echo-0", true)
	pid, err := w.c.PodPID("default", "echo-0")
	w.ok(err)
	w.ok(syscall.Kill(pid, syscall.SIGKILL))
	w.must(ctx, func() error {
		now, err := w.c.PodPID("default", "echo-0")
		if err == nil && now == pid {
			err = fmt.Errorf("still process %d", pid)
		}
		return err
	})
	w.must(ctx, func() error {
		p, err := w.pod(ctx, "echo-0")
		if err != nil {
			return err
		}
		s := p.Status.ContainerStatuses[0]
		if p.UID != before.UID || p.Status.PodIP != before.Status.PodIP {
			w.Fatal("another pod")
		}
		if s.RestartCount != 1 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 137 || !isReady(p) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	out, err := w.kubectlRun(ctx, "logs", "--previous", "echo-0")
	if err != nil || !strings.HasPrefix(out, "hello from echo-0") {
		w.Errorf("previous logs: %q, %v", out, err)
	}
}

func (w world) deleteReplaces(ctx context.Context) {
	before := w.awaitReady(ctx, "echo-1", true)
	w.ok(w.cs.CoreV1().Pods("default").Delete(ctx, "echo-1", metav1.DeleteOptions{}))
	w.must(ctx, func() error {
		p, err := w.pod(ctx, "echo-1")
		if err == nil && (p.UID == before.UID || !isReady(p)) {
			err = fmt.Errorf("pod %s is not there anew", p.Name)
		}
		return err
	})
	raw, err := os.ReadFile(filepath.Join(w.c.LogDir(), "pods", "default_echo-1_"+string(before.UID), "0.log"))
	if err != nil || !strings.HasSuffix(string(raw), "bye\n") {
		w.Errorf("the log of the deleted pod ends with %q, %v", raw, err)
	}
}

func (w world) outage(ctx context.Context) {
	w.awaitAnswers(ctx, "echo-0", "echo-1")
	ip := w.awaitReady(ctx, "echo-0", true).Status.PodIP
	w.c.StopAPIServer()
	pid, err := w.c.PodPID("default", "echo-0")
	w.ok(err)
	w.ok(syscall.Kill(pid, syscall.SIGKILL))
	w.must(ctx, func() error {
		if got := get("http://" + ip + ":8080/"); got != "echo-0" {
			return fmt.Errorf("echo-0 without an API server: %s", got)
		}
		return nil
	})
	w.ok(w.c.StartAPIServer(ctx))
	w.must(ctx, func() error {
		p, err := w.pod(ctx, "echo-0")
		if err == nil && p.Status.ContainerStatuses[0].RestartCount != 2 {
			err = fmt.Errorf("%d restarts reported", p.Status.ContainerStatuses[0].RestartCount)
		}
		return err
	})
}

func (w world) refusesMore(ctx context.Context) {
	pods := w.cs.CoreV1().Pods("default")
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "two"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: image}, {Name: "b", Image: image}}},
	}, metav1.CreateOptions{})
	w.ok(err)
	w.must(ctx, func() error {
		p, err := w.pod(ctx, "two")
		if err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting != nil && strings.Contains(s.State.Waiting.Message, "one container per pod") {
				return nil
			}
		}
		return fmt.Errorf("status %+v", p.Status.ContainerStatuses)
	})
	w.ok(pods.Delete(ctx, "two", metav1.DeleteOptions{}))
	w.must(ctx, func() error {
		if _, err := w.pod(ctx, "two"); err == nil {
			return fmt.Errorf("pod two is still there")
		}
		return nil
	})
}

// marked lists processes, of any parent, whose environment names the cluster's folder.
func marked(dir string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var left []string
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte(dir)) {
			cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			left = append(left, string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return left
}
