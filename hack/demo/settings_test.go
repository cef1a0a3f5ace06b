package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func env(values map[string]string) func(string) string {
	return func(k string) string { return values[k] }
}

// inRoot runs a test in the root of the repository, where the demo must be started.
func inRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
	if _, err := os.Stat("go.mod"); err != nil {
		t.Fatal(err)
	}
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	inRoot(t)
	s, err := parse([]string{"-bots", "7"}, env(map[string]string{"BOTS": "50", "DURATION": "90s", "KEEP": "1", "WORLD": "x.yaml"}))
	if err != nil {
		t.Fatal(err)
	}
	if s.bots != 7 || s.duration != 90*time.Second || !s.keep || s.world != "x.yaml" {
		t.Errorf("%+v", s)
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	inRoot(t)
	for want, args := range map[string][]string{
		"0 bots":                        {"-bots", "0"},
		"flags only":                    {"now"},
		"negative":                      {"-duration", "-1s"},
		"want kill:NODE":                {"-fault", "kill@3s"},
		"raise DURATION (-duration) to": {"-duration", "60s", "-fault", "kill:1@30s"},
		"(-duration) of 45s":            {"-chaos", "-duration", "44s"},
		"faults of its":                 {"-chaos", "-duration", "5m", "-fault", "kill:1@30s"},
		"one at a time":                 {"-failover", "-fence"},
		"have faults":                   {"-fence", "-duration", "5m"},
	} {
		if _, err := parse(args, env(nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
	for text, want := range map[string]string{"60": "60s for seconds", "1.5": "1.5s for seconds", "soon": "90s or 5m"} {
		if _, err := parse(nil, env(map[string]string{"DURATION": text})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("DURATION=%s: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := parse([]string{"-fault", "kill:1@30"}, env(nil)); err == nil || !strings.Contains(err.Error(), "30s for seconds") {
		t.Errorf("a fault without a unit: %v", err)
	}
	if _, err := parse(nil, env(map[string]string{"DURATION": "soon"})); err == nil || !strings.Contains(err.Error(), "DURATION=soon") {
		t.Errorf("%v", err)
	}
}

func TestHowManyHandoffsARunMustShowFollowsFromItsBotsAndItsTime(t *testing.T) {
	inRoot(t)
	for _, tc := range []struct {
		bots, duration, handoffs string
		want                     int
	}{
		{"40", "45s", "", 45},   // 110 were seen
		{"100", "60s", "", 150}, // 336 were seen
		{"100", "90s", "", 200},
		{"1", "10s", "", 1},
		{"5000", "1h", "", 200},
		{"40", "45s", "200", 200},
		{"40", "45s", "0", 0},
	} {
		args := []string{"-bots", tc.bots, "-duration", tc.duration}
		if tc.handoffs != "" {
			args = append(args, "-handoffs", tc.handoffs)
		}
		if s, err := parse(args, env(nil)); err != nil || s.handoffs != tc.want {
			t.Errorf("%v: %d handoffs (%v), want %d", args, s.handoffs, err, tc.want)
		}
	}
}

func TestOutsideOfTheRepositoryItSaysSo(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := parse(nil, env(nil)); err == nil || !strings.Contains(err.Error(), "root of the repository") {
		t.Error(err)
	}
}

func TestFaultScripts(t *testing.T) {
	list, err := parseFaults("stop:2@40s+20s, kill:1@30s,api@50s+30s,move:operator@1m,store@90s")
	if err != nil {
		t.Fatal(err)
	}
	want := []fault{
		{faultKill, 1, 30 * time.Second, 0, ""},
		{faultStop, 2, 40 * time.Second, 20 * time.Second, ""},
		{faultAPI, 0, 50 * time.Second, 30 * time.Second, ""},
		{faultMove, 0, 60 * time.Second, 0, "operator"},
		{faultStore, 0, 90 * time.Second, 0, ""},
	}
	for i, f := range want {
		if list[i] != f {
			t.Errorf("%+v, want %+v", list[i], f)
		}
		if again, err := parseFaults(f.String()); err != nil || again[0] != f {
			t.Errorf("%v is read back as %+v, %v", f, again, err)
		}
	}
	for _, bad := range []string{"kill:1", "kill:1@30s+2s", "stop:1@30s", "api:1@3s+3s", "api@3s", "burn:1@3s", "kill:-1@3s", "kill:x@3s", "kill:1@soon", "store@3s+3s", "store:1@3s"} {
		if _, err := parseFaults(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if list, err := parseFaults(""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("kill:1@30s,stop:2@40s+20s,api@50s+30s")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := parseFaults(s)
		for _, one := range list {
			if _, again := parseFaults(one.String()); err == nil && again != nil {
				t.Fatalf("%q is read, its own form %v is not: %v", s, one, again)
			}
		}
	})
}
