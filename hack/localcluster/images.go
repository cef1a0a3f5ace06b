package localcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// images maps image references to binaries. The map is a file, so that another process can load an image into a
// running cluster. Binaries are copied: a rebuild does not change what runs, as a pushed image would not.
type images struct {
	dir string
	mu  sync.Mutex // one writer per process; a rename makes the file whole for readers
}

func (s *images) index() string { return filepath.Join(s.dir, "index.json") }

func (s *images) read() (map[string]string, error) {
	raw, err := os.ReadFile(s.index())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the list of images: %w", err)
	}
	m := map[string]string{}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("reading the list of images: %w", err)
	}
	return m, nil
}

// load makes binary the content of image ref.
func (s *images) load(ref, binary string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := s.keep(binary)
	if err != nil {
		return fmt.Errorf("loading image %s: %w", ref, err)
	}
	m, err := s.read()
	if err != nil {
		return err
	}
	m[ref] = kept
	raw, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(s.index()+".new", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(s.index()+".new", s.index())
	}
	if err != nil {
		return fmt.Errorf("writing the list of images: %w", err)
	}
	return nil
}

// keep copies a binary into a folder named after its content and returns the copy.
func (s *images) keep(binary string) (string, error) {
	in, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is no executable file", binary)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(s.dir, ".load-")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(tmp, sum), in)
	if err := errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return "", err
	}
	target := filepath.Join(s.dir, hex.EncodeToString(sum.Sum(nil))[:16], filepath.Base(binary))
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	return target, os.Rename(tmp.Name(), target)
}

// find returns the binary of an image.
func (s *images) find(ref string) (string, error) {
	m, err := s.read()
	if err != nil {
		return "", err
	}
	if b, ok := m[ref]; ok {
		return b, nil
	}
	return "", fmt.Errorf("image %q has no binary in this cluster: load one with --image %s=BINARY", ref, ref)
}
