package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spatialcells/spatialcells/hack/localcluster"
	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

// status prints what runs; it is an error when nothing does.
func status(ctx context.Context, dir string, out io.Writer) error {
	s, err := localcluster.Inspect(dir)
	if err != nil {
		return err
	}
	if !s.Owner.Alive() {
		return fmt.Errorf("the cluster in %s does not run: start it with `up --dir %s`", dir, dir)
	}
	fmt.Fprintf(out, "cluster   %s\nowner     process %d, up for %v\nAPI       %s\nKUBECONFIG %s\n",
		dir, s.Owner.PID, time.Since(s.Started).Round(time.Second), s.APIServer, s.Kubeconfig)
	for _, p := range child.Recorded(dir) {
		fmt.Fprintf(out, "process   %-7d %s\n", p.PID, p.Label)
	}
	return printPods(ctx, s, out)
}

func printPods(ctx context.Context, s localcluster.State, out io.Writer) error {
	conf, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	conf.Timeout = 5 * time.Second
	cs, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	nodes, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	for _, n := range nodes.Items {
		fmt.Fprintf(out, "machine   %s\n", n.Name)
	}
	pods, err := cs.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	for _, p := range pods.Items {
		fmt.Fprintf(out, "pod       %s/%s %s on %s at %s\n", p.Namespace, p.Name, p.Status.Phase, p.Spec.NodeName, p.Status.PodIP)
	}
	return nil
}

// detach runs `up` again as a process of its own session and returns when its cluster takes pods.
func detach(ctx context.Context, a arguments, args []string, out, progress io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	logFile := filepath.Join(a.dir, "logs", "localcluster.log")
	if err := os.MkdirAll(filepath.Dir(logFile), 0o700); err != nil {
		return fmt.Errorf("making the folder of logs: %w", err)
	}
	log, err := os.Create(logFile)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, append([]string{"up"}, append(args, "--detach=false")...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // why it ended stands in its log
	}()
	return awaitReady(ctx, a.dir, cmd, ended, logFile, out, progress)
}

func awaitReady(ctx context.Context, dir string, cmd *exec.Cmd, ended <-chan struct{}, logFile string, out, progress io.Writer) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	shown := 0
	for {
		shown = show(logFile, shown, progress)
		s, err := localcluster.Inspect(dir)
		if err == nil && s.Ready && s.Owner.PID == cmd.Process.Pid {
			fmt.Fprintf(out, "the cluster takes pods; use it with\n  export KUBECONFIG=%s\n", s.Kubeconfig)
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			show(logFile, shown, progress)
			return fmt.Errorf("the cluster did not come up; log: %s", logFile)
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			return errors.New("interrupted; the cluster is stopped")
		}
	}
}

// show prints the part of the log that was not shown yet and returns how much is shown now.
func show(file string, shown int, to io.Writer) int {
	raw, err := os.ReadFile(file)
	if err != nil || len(raw) <= shown {
		return shown
	}
	end := strings.LastIndexByte(string(raw), '\n') + 1
	if end <= shown {
		return shown
	}
	_, _ = to.Write(raw[shown:end])
	return end
}
