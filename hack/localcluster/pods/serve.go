package pods

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
)

// streamIdle bounds an exec, attach or port-forward that says nothing.
const streamIdle = 4 * time.Hour

// Serve answers the API server's requests to a kubelet (logs, exec, port-forward) until ctx ends.
func (r *Runtime) Serve(ctx context.Context, l net.Listener, conf *tls.Config) error {
	h := api.PodHandler(api.PodHandlerConfig{
		RunInContainer:   r.runInContainer,
		PortForward:      r.portForward,
		GetContainerLogs: r.containerLogs,
		GetPodsFromKubernetes: func(context.Context) ([]*corev1.Pod, error) {
			return r.running(), nil
		},
		StreamIdleTimeout:     streamIdle,
		StreamCreationTimeout: 30 * time.Second,
	}, false)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(tls.NewListener(l, conf)); ctx.Err() == nil {
		return fmt.Errorf("serving the kubelet's API on %s: %w", l.Addr(), err)
	}
	return nil
}

func (r *Runtime) running() []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*corev1.Pod, 0, len(r.pods))
	for _, p := range r.pods {
		list = append(list, p.latest())
	}
	return list
}

// portForward serves one connection of kubectl port-forward.
func (r *Runtime) portForward(ctx context.Context, namespace, name string, port int32, s io.ReadWriteCloser) error {
	defer s.Close()
	p := r.find(namespace, name)
	if p == nil || p.process() == nil {
		return errdefs.NotFoundf("pod %s/%s does not run here", namespace, name)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(p.ip, strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("forwarding to pod %s: %w", name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, s)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(s, c)
	return err
}
