package pods

import (
	"path"
	"slices"
	"strings"
)

// expand replaces $(NAME) by the value of NAME as Kubernetes does: $$ stands for $, an unknown name stays as written.
func expand(s string, lookup map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i+2:], ')')
			if end < 0 {
				b.WriteString("$(")
				i++
				continue
			}
			name := s[i+2 : i+2+end]
			if v, ok := lookup[name]; ok {
				b.WriteString(v)
			} else {
				b.WriteString("$(" + name + ")")
			}
			i += 2 + end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// mount says where a container's mount path really is.
type mount struct{ from, to string }

// mounts rewrites paths: there is no mount namespace.
type mounts []mount

// sorted puts longer paths first, so that a mount within a mount wins.
func (m mounts) sorted() mounts {
	for i := range m {
		m[i].from = path.Clean(m[i].from)
	}
	slices.SortStableFunc(m, func(a, b mount) int { return len(b.from) - len(a.from) })
	return m
}

// rewrite replaces each mount path in s that stands as a whole path or as the beginning of one. What was replaced is
// not looked at again.
func (m mounts) rewrite(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		hit := m.at(s, i)
		if hit == nil {
			b.WriteByte(s[i])
			i++
			continue
		}
		b.WriteString(hit.to)
		i += len(hit.from)
	}
	return b.String()
}

// at returns the mount whose path begins at position i of s.
func (m mounts) at(s string, i int) *mount {
	if s[i] != '/' || (i > 0 && pathByte(s[i-1])) {
		return nil
	}
	for k := range m {
		rest, ok := strings.CutPrefix(s[i:], m[k].from)
		if ok && m[k].from != "/" && (rest == "" || rest[0] == '/' || !pathByte(rest[0])) {
			return &m[k]
		}
	}
	return nil
}

// pathByte tells whether a byte next to a path would make it another path.
func pathByte(c byte) bool {
	return c == '/' || c == '.' || c == '-' || c == '_' || c >= 0x80 ||
		(c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

// find returns where a mount path really is.
func (m mounts) find(from string) (string, bool) {
	for _, x := range m {
		if x.from == path.Clean(from) {
			return x.to, true
		}
	}
	return "", false
}
