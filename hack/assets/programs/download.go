package programs

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	defaultK8s  = "https://dl.k8s.io"
	defaultEtcd = "https://github.com/etcd-io/etcd/releases/download"

	reachPatience = 4 * time.Second  // until a server has answered
	stallPatience = 30 * time.Second // without a byte
	maxSums       = 256 << 10        // bytes of a list of checksums
	maxProgram    = 512 << 20        // bytes of a program or an archive
)

// ErrChecksum says that a server sent something else than it published the checksum of.
var ErrChecksum = errors.New("wrong checksum")

// errNoRelease says that a server does not have a release: not there, or not a release server at all.
var errNoRelease = errors.New("no release there")

// download gets what it can and returns what is left to be built. Only a wrong checksum or the end of ctx is an error.
func (r *run) download(ctx context.Context, names []string) (left []string, err error) {
	if r.Env("OFFLINE") == "1" {
		r.Progress("OFFLINE=1: no download of the official Kubernetes programs")
		return names, nil
	}
	away := map[string]bool{} // servers not to be asked again
	for _, n := range names {
		base, src := r.source(n)
		if away[base] {
			left = append(left, n)
			continue
		}
		err := r.fetch(ctx, n, src)
		switch {
		case err == nil:
		case errors.Is(err, ErrChecksum):
			return nil, fmt.Errorf("downloading %s: %w: nothing was kept; check K8S_BINARIES_URL and ETCD_BINARIES_URL, or set OFFLINE=1 to build from source", n, err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("downloading %s: %w", n, ctx.Err())
		default:
			away[base] = true
			left = append(left, n)
			r.Progress(fmt.Sprintf("%s cannot be downloaded: %v", n, err))
		}
	}
	return left, nil
}

// source is where a program and its checksum are.
type source struct {
	url, sums string
	line      string // name of the file in a list of checksums; empty when the checksum stands alone
	member    string // path within an archive; empty for a bare program
}

// source returns the server that has a program and the program's place there.
func (r *run) source(name string) (base string, s source) {
	k8s, etcd := strings.TrimRight(r.Env("K8S_BINARIES_URL"), "/"), strings.TrimRight(r.Env("ETCD_BINARIES_URL"), "/")
	if name != "etcd" {
		if k8s == "" {
			k8s = defaultK8s
		}
		url := fmt.Sprintf("%s/release/%s/bin/%s/%s", k8s, Version, platform(), name)
		return k8s, source{url: url, sums: url + ".sha256"}
	}
	switch {
	case etcd != "":
	case k8s != "":
		etcd = k8s + "/etcd"
	default:
		etcd = defaultEtcd
	}
	folder := fmt.Sprintf("etcd-%s-%s-%s", EtcdVersion, runtime.GOOS, runtime.GOARCH)
	at := etcd + "/" + EtcdVersion + "/"
	return etcd, source{url: at + folder + ".tar.gz", sums: at + "SHA256SUMS", line: folder + ".tar.gz", member: folder + "/etcd"}
}

// fetch downloads, verifies and installs one program.
func (r *run) fetch(ctx context.Context, name string, s source) error {
	sums, err := r.text(ctx, s.sums)
	if err != nil {
		return err
	}
	want, err := findSum(sums, s.line)
	if err != nil {
		return fmt.Errorf("%s: %w", s.sums, err)
	}
	dir, err := r.partial()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	r.Progress("downloading " + s.url)
	got, err := r.save(ctx, s.url, file)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%w: %s has sha256 %s, published is %s", ErrChecksum, s.url, got, want)
	}
	if s.member != "" {
		if file, err = extract(file, s.member, filepath.Join(dir, "out", name)); err != nil {
			return err
		}
	}
	return r.install(ctx, name, file)
}

// findSum finds a checksum in a list of "<hex>  <name>", or the only one when name is empty.
func findSum(text []byte, name string) (string, error) {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) == 0 || (name != "" && !slices.Contains(f[1:], name) && !slices.Contains(f[1:], "*"+name)) {
			continue
		}
		sum := strings.ToLower(f[0])
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
			return "", fmt.Errorf("%w: what stands there is no checksum", errNoRelease)
		}
		return sum, nil
	}
	return "", fmt.Errorf("%w: no checksum for %s", errNoRelease, name)
}

// client reaches a server soon or not at all.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: reachPatience}).DialContext,
		TLSHandshakeTimeout:   reachPatience,
		ResponseHeaderTimeout: reachPatience,
		DisableKeepAlives:     true,
	}}
}

func (r *run) open(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: %s answers %s", errNoRelease, url, resp.Status)
	}
	return resp.Body, nil
}

func (r *run) text(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*reachPatience)
	defer cancel()
	body, err := r.open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, maxSums))
}

// save writes a response to a file and returns its SHA-256 in hex. It gives up when no byte comes for a while.
func (r *run) save(ctx context.Context, url, file string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallPatience, func() { cancel(errors.New("the download stalled")) })
	defer stalled.Stop()
	body, err := r.open(ctx, url)
	if err != nil {
		return "", err
	}
	defer body.Close()
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	began, said, total := time.Now(), time.Now(), 0
	in := &progressReader{in: io.LimitReader(body, maxProgram+1), each: func(n int) {
		stalled.Reset(stallPatience)
		if total += n; time.Since(said) >= heartbeat {
			said = time.Now()
			r.Progress(fmt.Sprintf("downloading %s: %d MB in %v", filepath.Base(url), total>>20, time.Since(began).Round(time.Second)))
		}
	}}
	n, err := io.Copy(io.MultiWriter(f, sum), in)
	if err := errors.Join(err, f.Close(), context.Cause(ctx)); err != nil {
		return "", err
	}
	if n > maxProgram {
		return "", fmt.Errorf("%w: %s is larger than %d MB", errNoRelease, url, maxProgram>>20)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

type progressReader struct {
	in   io.Reader
	each func(n int)
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.each(n)
	return n, err
}

// extract takes one member out of a .tar.gz.
func extract(archive, member, to string) (string, error) {
	f, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer f.Close()
	gz, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return "", fmt.Errorf("%w: %s is no archive: %w", errNoRelease, filepath.Base(archive), err)
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if err != nil {
			return "", fmt.Errorf("%w: no %s in the archive: %w", errNoRelease, member, err)
		}
		if h.Name != member || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", err
		}
		out, err := os.Create(to)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(out, io.LimitReader(tr, maxProgram))
		return to, errors.Join(err, out.Close())
	}
}
