package gateway

import (
	"net/http"
	"net/url"
	"strings"
)

// originAllowed reports whether a page of this origin may connect. A browser always names the origin of the page and
// does not let the page change it; a request without one is no browser and can forge nothing on behalf of a user.
func originAllowed(r *http.Request, allowed []string) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	origin := values[0]
	for _, a := range allowed {
		if a == "*" || strings.EqualFold(a, origin) {
			return true
		}
	}
	host, ok := originHost(origin)
	return ok && strings.EqualFold(host, r.Host)
}

// originHost returns host[:port] of a serialised web origin; false for "null" and everything that is none.
func originHost(origin string) (string, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return "", false
	}
	return u.Host, true
}
