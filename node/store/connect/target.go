package connect

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of a URL.
const (
	maxURL       = 8192
	maxAddresses = 16
	maxName      = 253
	defaultPort  = "6379"
	sentinelPort = "26379"
)

// Schemes of a URL: one server, or a primary that is found by its sentinels; with TLS or without.
const (
	schemePlain          = "redis"
	schemeTLS            = "rediss"
	schemeSentinel       = "redis+sentinel"
	schemeSecureSentinel = "rediss+sentinel"
)

// Target is what a URL names.
type Target struct {
	// Secure is set for TLS, to the sentinels too.
	Secure bool
	// Addresses are host:port of the one server, or of the sentinels.
	Addresses []string
	// Primary is the name by which the sentinels know the primary; empty without sentinels.
	Primary string
	// Username is empty for the default user.
	Username string
	// Database is its number.
	Database int
}

var (
	errForm = errors.New("store URL is not of the form redis://host:port, rediss://host:port or " +
		"redis+sentinel://host:port,host:port/primary-name")
	errPassword = errors.New("store URL has a password in it: put it into a file and name that")
	hostName    = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)
	primaryName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// Parse reads redis://[user@]host[:port][/database] or, with sentinels,
// redis+sentinel://[user@]host[:port],...[:port]/primary-name[/database]. With rediss instead of redis TLS is used.
func Parse(raw string) (Target, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || len(raw) > maxURL {
		return Target{}, errForm
	}
	t := Target{Secure: scheme == schemeTLS || scheme == schemeSecureSentinel}
	sentinels := scheme == schemeSentinel || scheme == schemeSecureSentinel
	if !sentinels && scheme != schemePlain && scheme != schemeTLS {
		return Target{}, errForm
	}
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(authority[:at], ":")
		if hasPassword {
			return Target{}, errPassword
		}
		t.Username, authority = user, authority[at+1:]
	}
	var err error
	if t.Addresses, err = addresses(authority, sentinels); err != nil {
		return Target{}, err
	}
	if sentinels {
		if t.Primary, path, _ = strings.Cut(path, "/"); len(t.Primary) > maxName || !primaryName.MatchString(t.Primary) {
			return Target{}, fmt.Errorf("%w: it lacks the name of the primary that the sentinels watch", errForm)
		}
	}
	if t.Database, err = database(path); err != nil {
		return Target{}, err
	}
	return t, nil
}

// addresses reads host:port, or with sentinels several.
func addresses(authority string, sentinels bool) ([]string, error) {
	port := defaultPort
	list := []string{authority}
	if sentinels {
		port = sentinelPort
		list = strings.Split(authority, ",")
	}
	if len(list) > maxAddresses {
		return nil, fmt.Errorf("store URL names %d sentinels: at most %d", len(list), maxAddresses)
	}
	for i, address := range list {
		full, ok := complete(address, port)
		if !ok {
			return nil, errForm
		}
		list[i] = full
	}
	return list, nil
}

// complete adds the port to an address that has none, and reports whether it is an address at all.
func complete(address, port string) (string, bool) {
	host := address
	if strings.LastIndexByte(address, ':') > strings.LastIndexByte(address, ']') {
		var err error
		if host, port, err = net.SplitHostPort(address); err != nil {
			return "", false
		}
	} else if inner, bracketed := strings.CutPrefix(address, "["); bracketed {
		host = strings.TrimSuffix(inner, "]")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || len(host) > maxName {
		return "", false
	}
	if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// database reads the number of the database from the path of a URL; without one it is 0.
func database(path string) (int, error) {
	if path == "" {
		return 0, nil
	}
	db, err := strconv.ParseUint(path, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("store URL names database %q: use a number", path)
	}
	return int(db), nil
}

// String is the URL, without the user.
func (t Target) String() string {
	scheme := schemePlain
	if t.Secure {
		scheme = schemeTLS
	}
	path := ""
	if t.Primary != "" {
		scheme += "+sentinel"
		path = "/" + t.Primary
	}
	if t.Database != 0 {
		path += "/" + strconv.Itoa(t.Database)
	}
	return scheme + "://" + strings.Join(t.Addresses, ",") + path
}
