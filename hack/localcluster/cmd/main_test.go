package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

func TestCommandLines(t *testing.T) {
	a, err := parse("up", []string{"--dir", "x", "--image", "a:v1=/bin/a", "--image", "b=/bin/b=c", "--machines", "2"}, io.Discard)
	if err != nil || a.images["a:v1"] != "/bin/a" || a.images["b"] != "/bin/b=c" || a.machines != 2 || !strings.HasPrefix(a.dir, "/") {
		t.Errorf("%+v, %v", a, err)
	}
	for _, wrong := range [][]string{
		{}, {"fly", "--dir", "x"}, {"up"}, {"up", "--dir", "x", "stray"}, {"up", "--dir", "x", "--image", "nameonly"}, {"down", "--dir", "x", "--machines", "2"},
	} {
		if err := run(context.Background(), wrong, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: taken", wrong)
		}
	}
}

func TestDownOfNothingIsNoErrorAndStatusOfNothingIs(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := run(context.Background(), []string{"down", "--dir", dir}, &out, io.Discard); err != nil || !strings.Contains(out.String(), dir) {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := run(context.Background(), []string{"status", "--dir", dir}, &out, io.Discard); err == nil {
		t.Error("a cluster was found")
	}
}
