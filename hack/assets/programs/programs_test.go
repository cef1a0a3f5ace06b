package programs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a program that tells the version it is asked for, as the real ones do.
func script(name string) []byte {
	version := "Kubernetes " + Version
	if name == "etcd" {
		version = "etcd Version: " + strings.TrimPrefix(EtcdVersion, "v")
	}
	return []byte("#!/bin/sh\necho '" + version + "'\n")
}

// bench is a cache with a fake compiler and a fake server.
type bench struct {
	*testing.T
	cache string
	env   map[string]string
	mu    sync.Mutex
	built []string
	said  []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{T: t, cache: t.TempDir(), env: map[string]string{"OFFLINE": "1"}}
}

func (b *bench) options(need ...string) Options {
	return Options{
		Need: need, CacheDir: b.cache, Module: b.cache,
		Env: func(k string) string { return b.env[k] },
		Progress: func(l string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, l)
		},
		build: func(_ context.Context, _ *run, name, file string) error {
			b.mu.Lock()
			b.built = append(b.built, name)
			b.mu.Unlock()
			return os.WriteFile(file, script(name), 0o755)
		},
	}
}

func (b *bench) get(need ...string) string {
	b.Helper()
	dir, err := Dir(context.Background(), b.options(need...))
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range need {
		if _, err := os.Stat(filepath.Join(dir, n)); err != nil {
			b.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".partial*")); len(left) > 0 {
		b.Errorf("left behind: %v", left)
	}
	return dir
}

func (b *bench) wasBuilt(want ...string) {
	b.Helper()
	if !slices.Equal(b.built, want) {
		b.Errorf("built %v, want %v", b.built, want)
	}
	b.built = nil
}

func TestVersionsAreThoseOfTheModule(t *testing.T) {
	raw, err := os.ReadFile("../../k8s/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for path, version := range map[string]string{"k8s.io/kubernetes": Version, "go.etcd.io/etcd/server/v3": EtcdVersion} {
		if !strings.Contains(string(raw), "\t"+path+" "+version+"\n") {
			t.Errorf("hack/k8s does not require %s %s", path, version)
		}
	}
}

func TestMissingProgramsAreBuiltOnce(t *testing.T) {
	b := newBench(t)
	b.get("kubectl", "etcd")
	b.wasBuilt("kubectl", "etcd")
	b.get("kubectl", "etcd")
	b.wasBuilt()
	if !slices.ContainsFunc(b.said, func(l string) bool { return strings.Contains(l, "once; about 14 minutes") }) {
		t.Errorf("nobody was told how long it takes: %q", b.said)
	}
}

func TestKubebuilderAssetsComeFirstWhenComplete(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	b.env["KUBEBUILDER_ASSETS"] = dir
	if err := os.WriteFile(filepath.Join(dir, "etcd"), script("etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := b.get("etcd"); got != dir {
		t.Errorf("%s", got)
	}
	if got := b.get("etcd", "kubectl"); got == dir {
		t.Error("an incomplete folder was taken")
	}
	b.wasBuilt("etcd", "kubectl")
}

func TestBrokenProgramsAreReplaced(t *testing.T) {
	for name, content := range map[string]string{
		"truncated":       "\x7fELF",
		"empty":           "",
		"another version": "#!/bin/sh\necho v1.2.3\n",
		"crashing":        "#!/bin/sh\nkill -SEGV $$\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			dir := b.get("kubectl")
			b.wasBuilt("kubectl")
			if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
			b.get("kubectl")
			b.wasBuilt("kubectl")
		})
	}
}

func TestAProgramPutThereByOthersIsTaken(t *testing.T) {
	b := newBench(t)
	dir := filepath.Join(b.cache, "k8s-"+Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), script("kubectl"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.get("kubectl")
	b.wasBuilt()
}

func TestTwoRunsAtOnceBuildOnce(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := Dir(context.Background(), b.options("kubectl", "etcd")); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	slices.Sort(b.built)
	b.wasBuilt("etcd", "kubectl")
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	b := newBench(t)
	o := b.options("kubectl")
	o.build = func(_ context.Context, _ *run, _, file string) error {
		_ = os.WriteFile(file, []byte("half"), 0o755)
		return errors.New("compiler says no")
	}
	_, err := Dir(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "compiler says no") {
		t.Fatal(err)
	}
	b.get("kubectl")
	b.wasBuilt("kubectl")
}

func TestUnknownProgramsAreRefused(t *testing.T) {
	if _, err := Dir(context.Background(), newBench(t).options("kubelet")); err == nil {
		t.Error("kubelet was found")
	}
}

// release is a server with the layout of the official ones.
func release(t *testing.T, files map[string][]byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw, ok := files[r.URL.Path]; ok {
			_, _ = w.Write(raw)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:])
}

func k8sPath(name string) string { return "/release/" + Version + "/bin/" + platform() + "/" + name }

func etcdFiles(t *testing.T) map[string][]byte {
	t.Helper()
	folder := fmt.Sprintf("etcd-%s-%s-%s", EtcdVersion, runtime.GOOS, runtime.GOARCH)
	var raw bytes.Buffer
	gz := gzip.NewWriter(&raw)
	tw := tar.NewWriter(gz)
	for name, body := range map[string][]byte{folder + "/README.md": []byte("hello"), folder + "/etcd": script("etcd")} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, _ = tw.Write(body)
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	at := "/etcd/" + EtcdVersion + "/"
	return map[string][]byte{
		at + folder + ".tar.gz": raw.Bytes(),
		at + "SHA256SUMS":       []byte(sum([]byte("x")) + "  other.tar.gz\n" + sum(raw.Bytes()) + "  " + folder + ".tar.gz\n"),
	}
}

func online(t *testing.T, files map[string][]byte) *bench {
	t.Helper()
	b := newBench(t)
	b.env = map[string]string{"K8S_BINARIES_URL": release(t, files)}
	return b
}

func TestReleasesAreDownloadedAndVerified(t *testing.T) {
	files := etcdFiles(t)
	files[k8sPath("kubectl")] = script("kubectl")
	files[k8sPath("kubectl.sha256")] = []byte(sum(script("kubectl")) + "\n")
	b := online(t, files)
	b.get("etcd", "kubectl")
	b.wasBuilt()
}

func TestAWrongChecksumIsAnErrorAndKeepsNothing(t *testing.T) {
	b := online(t, map[string][]byte{
		k8sPath("kubectl"):        script("kubectl"),
		k8sPath("kubectl.sha256"): []byte(sum([]byte("something else"))),
	})
	_, err := Dir(context.Background(), b.options("kubectl"))
	if !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), "OFFLINE=1") {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.cache, "k8s-"+Version, "kubectl")); err == nil {
		t.Error("the program was kept")
	}
	b.wasBuilt()
}

func TestWhatIsNoReleaseServerMeansBuilding(t *testing.T) {
	page := []byte("<html>please log in</html>")
	for name, files := range map[string]map[string][]byte{
		"empty":  {},
		"portal": {k8sPath("kubectl"): page, k8sPath("kubectl.sha256"): page},
	} {
		t.Run(name, func(t *testing.T) {
			b := online(t, files)
			b.get("kubectl")
			b.wasBuilt("kubectl")
		})
	}
}

func TestAnUnreachableServerIsAskedOnce(t *testing.T) {
	b := newBench(t)
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	b.env = map[string]string{"K8S_BINARIES_URL": s.URL}
	began := time.Now()
	b.get("kube-apiserver", "kubectl")
	b.wasBuilt("kube-apiserver", "kubectl")
	asked := 0
	for _, l := range b.said {
		if strings.Contains(l, "cannot be downloaded") {
			asked++
		}
	}
	if asked != 1 || time.Since(began) > 10*time.Second {
		t.Errorf("asked %d times in %v", asked, time.Since(began))
	}
}

func TestOfflineAsksNobody(t *testing.T) {
	hit := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer s.Close()
	b := newBench(t)
	b.env = map[string]string{"K8S_BINARIES_URL": s.URL, "OFFLINE": "1"}
	b.get("kubectl")
	if hit {
		t.Error("a server was asked")
	}
}

func TestLinkFlagsCarryTheVersion(t *testing.T) {
	f := linkFlags("kubectl")
	for _, want := range []string{"-s -w", "component-base/version.gitVersion=" + Version, "client-go/pkg/version.gitMinor=37"} {
		if !strings.Contains(f, want) {
			t.Errorf("no %q in %q", want, f)
		}
	}
}

func TestALackOfRoomIsSaidBeforehand(t *testing.T) {
	b := newBench(t)
	r := &run{Options: b.options()}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	err := r.checkRoom(1 << 20)
	if err == nil || !strings.Contains(err.Error(), "go clean -cache") {
		t.Error(err)
	}
}

func TestCompilerTroubleComesWithARemedy(t *testing.T) {
	for line, want := range map[string]string{
		"write /tmp/x: no space left on device": "free 10 GB",
		"dial tcp: lookup modules.example: ...": "GOPROXY",
		"compile: signal: killed":               "memory",
		"something nobody has ever seen":        "GOFLAGS=-x",
	} {
		if got := remedy([]string{"first", line}); !strings.Contains(got, want) {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func FuzzFindSum(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 64)+"  etcd.tar.gz\n"), "etcd.tar.gz")
	f.Add([]byte("<html>"), "")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		if s, err := findSum(text, name); err == nil && len(s) != 64 {
			t.Errorf("%q", s)
		}
	})
}
