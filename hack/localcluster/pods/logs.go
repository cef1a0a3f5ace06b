package pods

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
)

const (
	maxLine      = 16 << 10 // bytes; a longer line is cut into several
	maxLog       = 32 << 20 // bytes; then the file is moved to .1, which is overwritten
	keepLives    = 3        // logs of container lives kept per pod
	keepDead     = 100      // folders of logs of pods that are gone
	followPeriod = 200 * time.Millisecond
	stampLayout  = "2006-01-02T15:04:05.000000000Z"
)

// logFile is the output of one container life: lines of "<time> <stream> <text>".
type logFile struct {
	mu   sync.Mutex
	path string
	f    *os.File
	size int64
	part map[string][]byte // beginnings of lines, by stream
}

func (r *Runtime) logDir(o *corev1.Pod) string {
	return filepath.Join(r.logs, o.Namespace+"_"+o.Name+"_"+string(o.UID))
}

func lifePath(dir string, restart int32) string {
	return filepath.Join(dir, strconv.Itoa(int(restart))+".log")
}

// createLog opens the log of a container life and drops those of lives long past.
func (r *Runtime) createLog(o *corev1.Pod, restart int32) (*logFile, error) {
	dir := r.logDir(o)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	old := lifePath(dir, restart-keepLives)
	_, _ = os.Remove(old), os.Remove(old+".1")
	l := &logFile{path: lifePath(dir, restart), part: map[string][]byte{}}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	l.f, l.size = f, 0
	return nil
}

type logStream struct {
	log  *logFile
	name string
}

func (l *logFile) stream(name string) io.Writer { return logStream{l, name} }

// Write never fails: a full disk must not stop a container.
func (s logStream) Write(b []byte) (int, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	if rest := l.part[s.name]; len(rest) > 0 {
		b = append(rest, b...)
	}
	var out bytes.Buffer
	stamp := time.Now().UTC().Format(stampLayout) + " " + s.name + " "
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		switch {
		case end >= 0 && end <= maxLine:
			out.WriteString(stamp)
			out.Write(b[:end+1])
			b = b[end+1:]
			continue
		case len(b) > maxLine:
			out.WriteString(stamp)
			out.Write(b[:maxLine])
			out.WriteByte('\n')
			b = b[maxLine:]
			continue
		}
		break
	}
	l.part[s.name] = append([]byte(nil), b...)
	l.write(out.Bytes())
	return n, nil
}

// write is called with the lock held.
func (l *logFile) write(b []byte) {
	if l.f == nil || len(b) == 0 {
		return
	}
	if l.size+int64(len(b)) > maxLog {
		_ = l.f.Close()
		_ = os.Rename(l.path, l.path+".1")
		if err := l.open(); err != nil {
			l.f = nil
			return
		}
	}
	_, _ = l.f.Write(b)
	l.size += int64(len(b))
}

// Close writes what is left of unfinished lines.
func (l *logFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	stamp := time.Now().UTC().Format(stampLayout)
	for name, rest := range l.part {
		if len(rest) > 0 {
			l.write([]byte(stamp + " " + name + " " + string(rest) + "\n"))
		}
	}
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// containerLogs serves kubectl logs.
func (r *Runtime) containerLogs(ctx context.Context, namespace, name, _ string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	p := r.find(namespace, name)
	if p == nil {
		return nil, errdefs.NotFoundf("pod %s/%s does not run here", namespace, name)
	}
	restart := p.status.restartCount()
	running := p.process() != nil
	if !running && restart > 0 && !exists(lifePath(r.logDir(p.obj), restart)) {
		restart-- // between two lives the last one is the current
	}
	if opts.Previous {
		restart--
	}
	path := lifePath(r.logDir(p.obj), restart)
	if restart < 0 || !exists(path) {
		if opts.Previous {
			return nil, errdefs.NotFoundf("the container of pod %s has no previous life", name)
		}
		return io.NopCloser(strings.NewReader("")), nil
	}
	return readLog(ctx, path, opts, func() bool {
		return !opts.Previous && p.process() != nil && p.status.restartCount() == restart
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readLog filters a log; with Follow it goes on until grows says no and the end is reached, or ctx ends.
func readLog(ctx context.Context, path string, opts api.ContainerLogOpts, grows func() bool) (io.ReadCloser, error) {
	var files []*os.File
	for _, name := range []string{path + ".1", path} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	out, in := io.Pipe()
	go func() {
		err := copyLog(ctx, in, files, path, opts, grows)
		for _, f := range files {
			_ = f.Close()
		}
		_ = in.CloseWithError(err)
	}()
	return out, nil
}

func copyLog(ctx context.Context, w io.Writer, files []*os.File, path string, opts api.ContainerLogOpts, grows func() bool) error {
	since := opts.SinceTime
	if opts.SinceSeconds > 0 {
		since = time.Now().Add(-time.Duration(opts.SinceSeconds) * time.Second)
	}
	s := logSink{w: w, since: since, stamps: opts.Timestamps, left: opts.LimitBytes, limited: opts.LimitBytes > 0}
	var tail [][]byte
	keep := func(line []byte) error {
		if opts.Tail == 0 {
			return s.line(line)
		}
		if tail = append(tail, append([]byte(nil), line...)); len(tail) > opts.Tail {
			tail = tail[1:]
		}
		return nil
	}
	var last *bufio.Reader
	for _, f := range files {
		last = bufio.NewReaderSize(f, maxLine+256)
		if err := eachLine(last, keep); err != nil {
			return err
		}
	}
	for _, line := range tail {
		if err := s.line(line); err != nil {
			return err
		}
	}
	if !opts.Follow || last == nil {
		return nil
	}
	return follow(ctx, &s, files[len(files)-1], last, path, grows)
}

// follow goes on reading; when the log was moved aside it reads that to its end and then the new one.
func follow(ctx context.Context, s *logSink, f *os.File, r *bufio.Reader, path string, grows func() bool) error {
	tick := time.NewTicker(followPeriod)
	defer tick.Stop()
	var next *os.File // the log that took the place of the one before
	defer func() { closeFile(next) }()
	for {
		more := grows()
		moved := !sameFile(f, path)
		if err := eachLine(r, s.line); err != nil {
			return err
		}
		if moved {
			closeFile(next)
			var err error
			if next, err = os.Open(path); err != nil {
				return err
			}
			f, r = next, bufio.NewReaderSize(next, maxLine+256)
			continue
		}
		if !more {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}

func sameFile(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(path)
	return err1 != nil || err2 != nil || os.SameFile(a, b)
}

// eachLine reads whole lines up to the present end; writers append whole lines only.
func eachLine(r *bufio.Reader, f func([]byte) error) error {
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 && err == nil {
			if err := f(line); err != nil {
				return err
			}
			continue
		}
		return nil
	}
}

// logSink writes lines the way kubectl wants them.
type logSink struct {
	w       io.Writer
	since   time.Time
	stamps  bool
	limited bool
	left    int
}

func (s *logSink) line(raw []byte) error {
	stamp, rest, ok1 := bytes.Cut(raw, []byte{' '})
	_, text, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 {
		return nil
	}
	if !s.since.IsZero() {
		if at, err := time.Parse(stampLayout, string(stamp)); err == nil && at.Before(s.since) {
			return nil
		}
	}
	if s.stamps {
		text = append(append(append([]byte(nil), stamp...), ' '), text...)
	}
	if s.limited {
		if s.left <= 0 {
			return nil
		}
		text = text[:min(len(text), s.left)]
		s.left -= len(text)
	}
	_, err := s.w.Write(text)
	return err
}

// pruneLogs bounds the number of folders that dead pods leave; they are kept because one looks for a cause afterwards.
func (r *Runtime) pruneLogs() {
	entries, err := os.ReadDir(r.logs)
	if err != nil || len(entries) <= keepDead {
		return
	}
	live := map[string]bool{}
	r.mu.Lock()
	for _, p := range r.pods {
		live[filepath.Base(r.logDir(p.obj))] = true
	}
	r.mu.Unlock()
	type aged struct {
		name string
		at   time.Time
	}
	var dead []aged
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !live[e.Name()] {
			dead = append(dead, aged{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(dead, func(a, b aged) int { return a.at.Compare(b.at) })
	for _, d := range dead[:max(0, len(dead)-keepDead)] {
		_ = os.RemoveAll(filepath.Join(r.logs, d.name))
	}
}
