package pods

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is one entry of a volume that comes from the API.
type file struct {
	data []byte
	mode fs.FileMode
}

// swapDir makes dir hold exactly the files, all at once: they are written into a new hidden folder, which the link
// ..data then points to; the visible names are links through ..data. A reader that opens several files through a
// resolved ..data sees one generation. It returns whether anything changed. Paths are relative and may have folders.
func swapDir(dir string, files map[string]file) (bool, error) {
	if same(dir, files) {
		return false, nil
	}
	for name := range files {
		if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
			return false, fmt.Errorf("path %q leaves the volume", name)
		}
	}
	fresh, err := os.MkdirTemp(dir, "..gen-")
	if err != nil {
		return false, err
	}
	for name, f := range files {
		target := filepath.Join(fresh, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return false, err
		}
		if err := os.WriteFile(target, f.data, f.mode); err != nil {
			return false, err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := relink(filepath.Base(fresh), filepath.Join(dir, "..data")); err != nil {
		return false, err
	}
	if err := linkNames(dir, files); err != nil {
		return false, err
	}
	if old != "" {
		err = os.RemoveAll(filepath.Join(dir, old))
	}
	return true, err
}

// linkNames gives each first path element a link through ..data and removes links of names that are gone.
func linkNames(dir string, files map[string]file) error {
	var tops []string
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		tops = append(tops, top)
		if err := relink(filepath.Join("..data", top), filepath.Join(dir, top)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type() == fs.ModeSymlink && e.Name() != "..data" && !slices.Contains(tops, e.Name()) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func relink(target, link string) error {
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	_ = os.Remove(link + "..new")
	if err := os.Symlink(target, link+"..new"); err != nil {
		return err
	}
	return os.Rename(link+"..new", link)
}

// same tells whether dir already holds exactly the files.
func same(dir string, files map[string]file) bool {
	root := filepath.Join(dir, "..data") + "/"
	seen := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, ok := files[strings.TrimPrefix(path, root)]
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !ok || !bytes.Equal(raw, f.data) {
			return fs.ErrInvalid
		}
		seen++
		return nil
	})
	return err == nil && seen == len(files)
}
