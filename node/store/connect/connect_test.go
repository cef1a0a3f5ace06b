package connect

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestURLs(t *testing.T) {
	for raw, want := range map[string]Target{
		"redis://h":                            {Addresses: []string{"h:6379"}},
		"redis://h:1/":                         {Addresses: []string{"h:1"}},
		"redis://ada@10.0.0.1:7000/3":          {Addresses: []string{"10.0.0.1:7000"}, Username: "ada", Database: 3},
		"rediss://[2001:db8::1]":               {Secure: true, Addresses: []string{"[2001:db8::1]:6379"}},
		"redis://[::1]:7":                      {Addresses: []string{"[::1]:7"}},
		"redis+sentinel://a:1,b/worlds":        {Addresses: []string{"a:1", "b:26379"}, Primary: "worlds"},
		"rediss+sentinel://u@[::1]:5/my.prm/2": {Secure: true, Addresses: []string{"[::1]:5"}, Primary: "my.prm", Username: "u", Database: 2},
	} {
		got, err := Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got.Secure != want.Secure || !slices.Equal(got.Addresses, want.Addresses) || got.Primary != want.Primary ||
			got.Username != want.Username || got.Database != want.Database {
			t.Errorf("%s: got %+v, want %+v", raw, got, want)
		}
		got.Username = ""
		if again, err := Parse(got.String()); err != nil || again.String() != got.String() {
			t.Errorf("%s: %q is read as %+v, %v", raw, got.String(), again, err)
		}
	}
}

func TestURLsThatAreNone(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                     "redis://host:port",
		"h:6379":                               "redis://host:port",
		"http://h":                             "redis://host:port",
		"redis://":                             "redis://host:port",
		"redis://h:0":                          "redis://host:port",
		"redis://h:70000":                      "redis://host:port",
		"redis://a:1,b:2":                      "redis://host:port",
		"redis://h h":                          "redis://host:port",
		"redis://::1:7":                        "redis://host:port",
		"redis://h:1/x":                        "use a number",
		"redis://u:secret@h:1":                 "put it into a file",
		"redis+sentinel://a:1,b:2":             "name of the primary",
		"redis+sentinel://a:1,,b:2/m":          "redis://host:port",
		"redis+sentinel://a/m m":               "name of the primary",
		"redis://" + strings.Repeat("h", 8200): "redis://host:port",
		"redis://" + strings.Repeat("h", 254):  "redis://host:port",
		"redis+sentinel://" + many(17) + "/worlds": "at most 16",
	} {
		if got, err := Parse(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %+v, %v, want an error with %q", raw, got, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

func many(n int) string { return strings.TrimSuffix(strings.Repeat("a:1,", n), ",") }

func FuzzParse(f *testing.F) {
	for _, raw := range []string{"redis://u@h:1/2", "rediss+sentinel://[::1]:5,b/m/3", "redis://[", "redis://]:1"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(got.String())
		if err != nil || again.String() != got.String() {
			t.Errorf("%q is read as %+v, and its own words as %+v, %v", raw, got, again, err)
		}
	})
}

func TestFilesAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pass word\r\n")
	if got, err := ReadSecret("password", file); err != nil || got != "pass word" {
		t.Errorf("read %q, %v", got, err)
	}
	write(strings.Repeat("p", MaxSecret+1))
	if _, err := ReadSecret("password", file); err == nil {
		t.Error("a huge password file is read")
	}
	write(strings.Repeat("p", maxCA+1))
	if _, err := (Files{CA: file}).Config("rediss://h"); err == nil {
		t.Error("a huge file of authorities is read")
	}
	if got, err := ReadSecret("password", ""); err != nil || got != "" {
		t.Errorf("without a file: %q, %v", got, err)
	}
	if _, err := ReadSecret("password", file+"-none"); err == nil {
		t.Error("a file that does not exist is read")
	}
}

func TestAuthoritiesNeedTLSAndMustBeCertificates(t *testing.T) {
	if _, err := (Config{URL: "redis://h", CA: []byte("x")}).Options(); err == nil || !strings.Contains(err.Error(), "use rediss://") {
		t.Errorf("authorities without TLS: %v", err)
	}
	if _, err := (Config{URL: "rediss://h", CA: []byte("x")}).Options(); err == nil || !strings.Contains(err.Error(), "must be PEM") {
		t.Errorf("authorities that are none: %v", err)
	}
}

func TestWhatAServerRisksAndLoses(t *testing.T) {
	good := Report{Server: "valkey", Version: "8.1.0", Role: rolePrimary, AOF: true, Fsync: fsyncAlways, Eviction: "noeviction"}
	for name, c := range map[string]struct {
		change         func(*Report)
		risks, loses   string
		isDevelopement bool
	}{
		"durable":            {change: func(*Report) {}},
		"not asked":          {change: func(r *Report) { r.Fsync = "" }},
		"no file":            {change: func(r *Report) { r.AOF, r.Fsync = false, "everysec" }, risks: "appendonly is off"},
		"each second":        {change: func(r *Report) { r.Fsync = "everysec" }, risks: `appendfsync is "everysec"`},
		"a full disk":        {change: func(r *Report) { r.AOFFailed = true }, loses: "disk may be full"},
		"eviction":           {change: func(r *Report) { r.Eviction, r.MaxMemory = "allkeys-lru", 1 }, loses: "throws records away"},
		"eviction, no limit": {change: func(r *Report) { r.Eviction = "allkeys-lru" }},
		"eviction of tokens": {change: func(r *Report) { r.Eviction, r.MaxMemory = "volatile-lru", 1 }},
		"development":        {change: func(r *Report) { *r = Report{} }, risks: "in memory only", isDevelopement: true},
	} {
		r := good
		c.change(&r)
		if got := r.Risking(); (got == "") != (c.risks == "") || !strings.Contains(got, c.risks) {
			t.Errorf("%s risks %q, want %q", name, got, c.risks)
		}
		if got := r.Losing(); (got == "") != (c.loses == "") || !strings.Contains(got, c.loses) {
			t.Errorf("%s loses %q, want %q", name, got, c.loses)
		}
		if r.Development() != c.isDevelopement || !r.Primary() {
			t.Errorf("%s: development %v, primary %v", name, r.Development(), r.Primary())
		}
	}
}

func TestConnectionsComeFromTheGivenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for from, want := range map[string]string{"127.113.0.7": "127.113.0.7", "": "127.0.0.1"} {
		c, err := Config{From: from}.dialer(time.Second, nil)(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if got := c.LocalAddr().(*net.TCPAddr).IP.String(); got != want {
			t.Errorf("from %q: %s", from, got)
		}
		_ = c.Close()
	}
}
