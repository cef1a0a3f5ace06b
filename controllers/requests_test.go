package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// stuckServer answers no request until its sender has gone.
func stuckServer(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/body" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		<-req.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server
}

func TestARequestThatHangsEnds(t *testing.T) {
	server := stuckServer(t)
	transport := limited{http.DefaultTransport, 50 * time.Millisecond}
	for _, path := range []string{"/none", "/body"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(req)
		if err == nil {
			_, err = response.Body.Read(make([]byte, 1))
			response.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the time-out", path, err)
		}
	}
}

func TestAWatchHasNoTimeout(t *testing.T) {
	server := stuckServer(t)
	transport := limited{http.DefaultTransport, 50 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/body?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := response.Body.Read(make([]byte, 1)); err == nil || time.Since(began) < 400*time.Millisecond {
		t.Errorf("a watch ended after %v: %v", time.Since(began), err)
	}
}

func TestClientsOfALimitedConfigGiveUp(t *testing.T) {
	cfg := &rest.Config{Host: stuckServer(t).URL}
	LimitRequests(cfg)
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := transport.(limited); !ok || l.timeout != requestTimeout || requestTimeout >= 10*time.Second {
		t.Errorf("the transport is %T", transport)
	}
}

func TestWaitsAfterFailuresStayShort(t *testing.T) {
	limiter := retries()
	var wait time.Duration
	for range 100 {
		wait = limiter.When(ctrl.Request{})
	}
	if wait != maxRetry || maxRetry > 3*time.Second {
		t.Errorf("the hundredth wait is %v", wait)
	}
}

func TestAfterAFailureNothingMoreIsBegun(t *testing.T) {
	items := make([]int, 1000)
	for i := range items {
		items[i] = i
	}
	calls := make(chan int, len(items))
	broken := errors.New("broken")
	err := each(t.Context(), items, func(_ context.Context, i int) error {
		calls <- i
		if i == 0 {
			return fmt.Errorf("item: %w", broken)
		}
		time.Sleep(time.Millisecond) // lets the first item fail while others are under way
		return nil
	})
	if !errors.Is(err, broken) || len(calls) > 10*writers {
		t.Errorf("%v after %d calls", err, len(calls))
	}
}
