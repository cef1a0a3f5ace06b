package main

import (
	"errors"
	"fmt"
	"strings"
)

// trouble is an error that says what to do.
type trouble struct {
	cause  error
	remedy string
	log    string
}

func (t *trouble) Error() string { return t.cause.Error() }

func (t *trouble) Unwrap() error { return t.cause }

// explain prints any error as cause, remedy and log, one line each.
func explain(err error, logs string) string {
	var t *trouble
	if !errors.As(err, &t) {
		t = &trouble{cause: err, remedy: "look into the log; `make demo-down` ends whatever may be left", log: logs}
	}
	text := fmt.Sprintf("demo: %s\n", oneLine(err.Error()))
	if t.remedy != "" {
		text += fmt.Sprintf("  do:  %s\n", oneLine(t.remedy))
	}
	if t.log == "" {
		t.log = logs
	}
	return text + fmt.Sprintf("  log: %s\n", t.log)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
