package store

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/zone"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return &Memory{} })
}

func TestLocalDriverKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		answers := make(chan zone.StoreAnswer, 1)
		return storetest.Synchronous(t, Local(&Memory{}, func(a zone.StoreAnswer) { answers <- a }).Submit, answers)
	})
}

func TestRedisKeepsTheContractOnTheEmbeddedServer(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return client(t, embedded(t).Addr(), patient) })
}

// The tests on a real server need one in PATH; the continuous build installs it.
func TestRedisKeepsTheContractOnARealServer(t *testing.T) {
	binary, ok := serverBinary()
	if !ok {
		t.Log("no valkey-server or redis-server in PATH: only the embedded server is tested")
		return
	}
	addr := startServer(t, binary)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		flush(t, addr)
		return client(t, addr, patient)
	})
	t.Run("as the model", func(t *testing.T) { checkAgainstModel(t, addr) })
}

func TestRedisAnswersAsTheModel(t *testing.T) { checkAgainstModel(t, embedded(t).Addr()) }

// checkAgainstModel asks Memory and Redis the same questions, in any order, and compares all answers.
func checkAgainstModel(t *testing.T, addr string) {
	opts := patient
	opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil)) // why something was unavailable
	store := client(t, addr, opts)
	rapid.Check(t, func(rt *rapid.T) {
		flush(t, addr)
		model := &Memory{}
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			req := storetest.AnyRequest(rt, model)
			want, got := normal(model.Do(req)), normal(store.Do(req))
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%+v\n got %s\nwant %s", req, show(got), show(want))
			}
		}
	})
}

// normal makes absent and empty blobs equal.
func normal(a zone.StoreAnswer) zone.StoreAnswer {
	if a.Record != nil && len(a.Record.Blob) == 0 {
		a.Record.Blob = nil
	}
	for i := range a.Records {
		if len(a.Records[i].Blob) == 0 {
			a.Records[i].Blob = nil
		}
	}
	return a
}

func show(a zone.StoreAnswer) string {
	text := ""
	if a.Record != nil {
		text = fmt.Sprintf(" with %+v", *a.Record)
	}
	if a.Contents != nil {
		text += fmt.Sprintf(" and %+v", *a.Contents)
	}
	a.Record, a.Contents = nil, nil
	return fmt.Sprintf("%+v%s", a, text)
}
