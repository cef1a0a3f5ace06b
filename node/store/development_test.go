package store

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestTheDevelopmentStoreSaysThatItKeepsNothingAndServes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var said bytes.Buffer
	listening := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, &said, "127.0.0.1", 0, "pw", func(a string) { listening <- a }) }()
	addr := <-listening
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	if err := c.Ping(context.Background()).Err(); err == nil {
		t.Error("the server answers without the password")
	}
	_ = c.Close()
	c = redis.NewClient(&redis.Options{Addr: addr, Password: "pw"})
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	port := portOf(t, addr)
	if err := Serve(context.Background(), "127.0.0.1", port, ""); err == nil {
		t.Error("two servers share a port")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if bytes.Count(said.Bytes(), []byte("\n")) != 1 || !bytes.Contains(said.Bytes(), []byte("LOST")) {
		t.Errorf("it said %q", said.String())
	}
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}
