package pods

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type probeKind int

const (
	startup probeKind = iota
	liveness
	readiness
)

func (k probeKind) String() string { return [...]string{"startup", "liveness", "readiness"}[k] }

// verdict is a probe's opinion that has lasted for its threshold.
type verdict struct {
	kind probeKind
	ok   bool
	why  string
}

// probes are the running probes of one container life.
type probes struct {
	results chan verdict
	cancel  context.CancelFunc
	begin   func() // starts liveness and readiness
	begun   bool
	ready   bool
	started bool
	running chan struct{} // holds one element per probe that runs
}

// maxProbes is the number of kinds.
const maxProbes = 3

func (p *pod) startProbes(ctx context.Context) *probes {
	c := &p.obj.Spec.Containers[0]
	ctx, cancel := context.WithCancel(ctx)
	s := &probes{results: make(chan verdict), cancel: cancel, running: make(chan struct{}, maxProbes)}
	run := func(kind probeKind, spec *corev1.Probe) {
		if spec == nil {
			return
		}
		s.running <- struct{}{}
		go func() {
			defer func() { <-s.running }()
			p.probe(ctx, kind, spec, s.results)
		}()
	}
	s.begin = func() {
		s.begun, s.started = true, true
		s.ready = c.ReadinessProbe == nil
		run(liveness, c.LivenessProbe)
		run(readiness, c.ReadinessProbe)
	}
	if c.StartupProbe != nil {
		run(startup, c.StartupProbe)
	} else {
		s.begin()
	}
	return s
}

// stop ends all probes and waits for them.
func (s *probes) stop() {
	s.cancel()
	for range maxProbes {
		s.running <- struct{}{} // all slots taken: nobody runs
	}
}

// judge acts on a verdict; kill means that the container must be restarted within the grace.
func (p *pod) judge(v verdict, s *probes) (grace time.Duration, kill bool) {
	c := &p.obj.Spec.Containers[0]
	var spec *corev1.Probe
	switch v.kind {
	case readiness:
		s.ready = v.ok
	case startup:
		spec = c.StartupProbe
		if v.ok && !s.begun {
			s.begin()
		}
	case liveness:
		spec = c.LivenessProbe
	}
	if !v.ok {
		p.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%v probe failed: %s", v.kind, v.why))
	}
	p.status.probed(s.started && s.ready, s.started)
	p.publish()
	if v.ok || v.kind == readiness {
		return 0, false
	}
	seconds := int64(30)
	if t := p.obj.Spec.TerminationGracePeriodSeconds; t != nil {
		seconds = *t
	}
	if t := spec.TerminationGracePeriodSeconds; t != nil {
		seconds = *t
	}
	return time.Duration(seconds) * time.Second, true
}

// probe asks again and again and reports each change of opinion.
func (p *pod) probe(ctx context.Context, kind probeKind, spec *corev1.Probe, results chan<- verdict) {
	timer := time.NewTimer(time.Duration(spec.InitialDelaySeconds) * time.Second)
	defer timer.Stop()
	t := tally{success: max(1, spec.SuccessThreshold), failure: max(1, spec.FailureThreshold)}
	if kind == readiness {
		t.decided = true // not ready until proven
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := p.ask(ctx, spec)
		if ctx.Err() != nil {
			return
		}
		if t.count(err == nil) {
			v := verdict{kind: kind, ok: err == nil}
			if err != nil {
				v.why = err.Error()
			}
			select {
			case results <- v:
			case <-ctx.Done():
				return
			}
			if kind == startup || (kind == liveness && !v.ok) {
				return
			}
		}
		timer.Reset(time.Duration(max(1, spec.PeriodSeconds)) * time.Second)
	}
}

// tally turns answers into opinions: an opinion changes after so many equal answers in a row.
type tally struct {
	success, failure int32
	run              int32 // equal answers in a row
	last             bool
	opinion          bool
	decided          bool
}

// count adds an answer and tells whether the opinion has just changed.
func (t *tally) count(ok bool) bool {
	if ok != t.last {
		t.last, t.run = ok, 0
	}
	need := t.failure
	if ok {
		need = t.success
	}
	if t.run < need {
		t.run++
	}
	if t.run < need || (t.decided && t.opinion == ok) {
		return false
	}
	t.opinion, t.decided = ok, true
	return true
}

// ask runs the probe once.
func (p *pod) ask(ctx context.Context, spec *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(1, spec.TimeoutSeconds))*time.Second)
	defer cancel()
	switch {
	case spec.HTTPGet != nil:
		return p.probeHTTP(ctx, spec.HTTPGet)
	case spec.TCPSocket != nil:
		return p.probeTCP(ctx, spec.TCPSocket)
	case spec.Exec != nil:
		return p.probeExec(ctx, spec.Exec)
	}
	return errors.New("the probe asks nothing")
}

// probeClient follows no redirect to another host and keeps no connection, as a kubelet's.
var probeClient = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // a probe asks whether, not who
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (p *pod) probeHTTP(ctx context.Context, h *corev1.HTTPGetAction) error {
	port, err := p.port(h.Port)
	if err != nil {
		return err
	}
	host := p.ip
	if h.Host != "" {
		host = h.Host
	}
	scheme := "http"
	if h.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	url := scheme + "://" + net.JoinHostPort(host, port) + "/" + strings.TrimPrefix(h.Path, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-probe/local")
	for _, x := range h.HTTPHeaders {
		req.Header.Set(x.Name, x.Value)
	}
	resp, err := probeClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("status %d: %.200s", resp.StatusCode, body)
	}
	return nil
}

func (p *pod) probeTCP(ctx context.Context, a *corev1.TCPSocketAction) error {
	port, err := p.port(a.Port)
	if err != nil {
		return err
	}
	host := p.ip
	if a.Host != "" {
		host = a.Host
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p *pod) probeExec(ctx context.Context, a *corev1.ExecAction) error {
	var out limited
	code, err := p.command(ctx, a.Command, nil, &out, &out)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("command took too long: %w", ctx.Err())
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("exit code %d: %s", code, out.text)
	}
	return nil
}

// port resolves a number or the name of a container port.
func (p *pod) port(v intstr.IntOrString) (string, error) {
	if v.Type == intstr.Int {
		return strconv.Itoa(v.IntValue()), nil
	}
	for _, cp := range p.obj.Spec.Containers[0].Ports {
		if cp.Name == v.StrVal {
			return strconv.Itoa(int(cp.ContainerPort)), nil
		}
	}
	return "", fmt.Errorf("the container has no port named %q", v.StrVal)
}

// limited keeps the first bytes that are written to it.
type limited struct{ text []byte }

func (l *limited) Write(b []byte) (int, error) {
	if room := 200 - len(l.text); room > 0 {
		l.text = append(l.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
