package pods

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

func testLog(t *testing.T) (*Runtime, *logFile, string) {
	t.Helper()
	r := &Runtime{logs: t.TempDir()}
	l, err := r.createLog(basePod(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return r, l, l.path
}

func readAll(t *testing.T, path string, opts api.ContainerLogOpts) string {
	t.Helper()
	in, err := readLog(context.Background(), path, opts, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestLogsAreLinesWhateverTheWrites(t *testing.T) {
	_, l, path := testLog(t)
	out, errOut := l.stream("stdout"), l.stream("stderr")
	for _, part := range []string{"on", "e\ntwo\nth", "ree"} {
		if _, err := out.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = errOut.Write([]byte("oops\n"))
	long := strings.Repeat("x", maxLine+10)
	_, _ = errOut.Write([]byte(long + "\n"))
	l.Close()
	want := "one\ntwo\noops\n" + long[:maxLine] + "\n" + long[maxLine:] + "\nthree\n"
	if got := readAll(t, path, api.ContainerLogOpts{}); got != want {
		t.Errorf("%.200q", got)
	}
	if got := readAll(t, path, api.ContainerLogOpts{Tail: 1}); got != "three\n" {
		t.Errorf("tail: %q", got)
	}
	if got := readAll(t, path, api.ContainerLogOpts{LimitBytes: 5}); got != "one\nt" {
		t.Errorf("limit: %q", got)
	}
	if got := readAll(t, path, api.ContainerLogOpts{SinceTime: time.Now().Add(time.Hour)}); got != "" {
		t.Errorf("since later: %q", got)
	}
	if got := readAll(t, path, api.ContainerLogOpts{Tail: 1, Timestamps: true}); !strings.HasPrefix(got, time.Now().UTC().Format("2006-01-")) {
		t.Errorf("timestamps: %q", got)
	}
}

func TestLogsAreBounded(t *testing.T) {
	_, l, path := testLog(t)
	out := l.stream("stdout")
	line := []byte(strings.Repeat("y", 8<<10) + "\n")
	for range 3 * maxLog / len(line) {
		_, _ = out.Write(line)
	}
	l.Close()
	var total int64
	for _, f := range []string{path, path + ".1"} {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > 2*maxLog {
		t.Errorf("%d MB on disk", total>>20)
	}
}

func TestFollowEndsWithTheContainer(t *testing.T) {
	_, l, path := testLog(t)
	out := l.stream("stdout")
	_, _ = out.Write([]byte("first\n"))
	ended := make(chan struct{})
	in, err := readLog(context.Background(), path, api.ContainerLogOpts{Follow: true}, func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := in.Read(buf); err != nil || string(buf[:n]) != "first\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	_, _ = out.Write([]byte("last\n"))
	close(ended)
	rest, err := io.ReadAll(in)
	if err != nil || string(rest) != "last\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:00.000000000Z stdout text\n"))
	f.Add([]byte(" \n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := logSink{w: io.Discard, since: time.Now(), stamps: true, limited: true, left: 3}
		if err := s.line(raw); err != nil || s.left < 0 {
			t.Errorf("%v, %d left", err, s.left)
		}
	})
}
