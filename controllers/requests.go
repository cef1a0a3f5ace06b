package controllers

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// requestTimeout bounds every request but watches. A World has one reconcile at a time, so one that hangs would hold its
	// failover: an answer that takes a third of the default lease duration is as good as none.
	requestTimeout = 5 * time.Second
	// firstRetry and maxRetry bound the waits after a reconcile that failed. What failed is mostly the API server, and when it
	// is back, silent nodes must be found out as soon as ever.
	firstRetry = 5 * time.Millisecond
	maxRetry   = 2 * time.Second
)

// LimitRequests bounds the time of every request that clients made from cfg will send. Watches go on as long as they like.
func LimitRequests(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited{next, requestTimeout} })
}

// retries is how long a controller waits after failures in a row.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, maxRetry)
}

// limited is a transport with a time-out from the sending of a request to the end of its answer.
type limited struct {
	next    http.RoundTripper
	timeout time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if watch := req.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return l.next.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(req.Context(), l.timeout)
	response, err := l.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = answer{response.Body, cancel}
	return response, nil
}

// WrappedRoundTripper lets client-go find what is below.
func (l limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// answer ends the time-out when it has been read.
type answer struct {
	io.ReadCloser
	read context.CancelFunc
}

// Close implements io.Closer.
func (a answer) Close() error {
	defer a.read()
	return a.ReadCloser.Close()
}
